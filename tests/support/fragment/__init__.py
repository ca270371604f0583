"""Benches for tests of fragments: queues of pipelines, writers that stage, topics."""
