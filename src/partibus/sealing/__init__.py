"""Encryption at rest: keys, and the sealing of whatever is written."""
