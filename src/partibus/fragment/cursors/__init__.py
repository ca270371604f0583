"""Cursors: named reading positions over messages that are kept for them."""
