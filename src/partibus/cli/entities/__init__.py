"""Entities and rules on the command line: options, files, reports."""
