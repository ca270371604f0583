"""Topics: a message is published once and copied to its subscriptions."""
