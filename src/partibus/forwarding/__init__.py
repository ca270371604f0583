"""Couriers: they carry what is in an outbox to its destination."""
