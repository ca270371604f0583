"""The web console: its built pages, and how they are served."""
