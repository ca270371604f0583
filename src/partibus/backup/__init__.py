"""Backups: a directory of them, made from a source, verified, pruned and restored."""
