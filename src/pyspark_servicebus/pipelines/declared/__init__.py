"""Pipelines declared in a file: read, checked, and run by their schedule."""
