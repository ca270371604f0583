"""The administration over HTTP: JSON under `/$partibus`, for the console, the CLI and scripts."""
