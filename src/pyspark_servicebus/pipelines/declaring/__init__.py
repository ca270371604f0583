"""Pipelines declared in a file; they are run by `pipelines.declared`."""
