"""The outbox: messages on their way to other entities, handed over exactly once."""
