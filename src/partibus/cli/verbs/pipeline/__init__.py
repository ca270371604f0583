"""Verbs about pipelines, and about who reads and writes in bulk."""
