"""The embedded store: a log in segment files and the latest checkpoint, in a directory."""
