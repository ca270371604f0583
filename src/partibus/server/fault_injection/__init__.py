"""Faults on demand: what is wrong on purpose, and for how long."""
