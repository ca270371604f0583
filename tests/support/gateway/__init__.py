"""Tests of the gateway on the in-memory bus: small messages, and clients that speak to it."""
