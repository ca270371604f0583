"""Clients of the simulated bus, each a program that somebody might have written."""
