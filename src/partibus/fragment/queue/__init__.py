"""The queue: messages arrive, wait, are delivered under locks and settled."""
