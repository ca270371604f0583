"""Stages: a pipeline writes a batch unseen and publishes all of it at once."""
