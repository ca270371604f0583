"""Clusters in tests: nodes, their networks and databases, faults, traffic, and books of it."""
