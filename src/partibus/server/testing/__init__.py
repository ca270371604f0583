"""Servers for tests: fake time, namespaces of their own, a reset."""
