"""Rules of subscriptions: filters that select messages, and actions that change the copy."""
