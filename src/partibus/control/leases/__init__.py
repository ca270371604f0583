"""Leases on lanes: what one node knows of them, and a table of them in memory."""
