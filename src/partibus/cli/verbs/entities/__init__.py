"""Verbs about entities, their rules and their policies."""
