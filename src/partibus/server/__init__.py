"""Wires every part into one node and owns its life."""
