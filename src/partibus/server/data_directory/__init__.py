"""The data directory: opened by one server, checked, repaired, adopted."""
