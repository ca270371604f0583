"""Sessions: messages that belong together, received by one holder in order."""
