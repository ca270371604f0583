"""Durability: ordered records and snapshots; it knows records, not semantics."""
