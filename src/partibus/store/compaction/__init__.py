"""Compaction: live bodies move out of old segments, so that their space comes back."""
