"""Pipelines on the command line: options, runs, checks."""
