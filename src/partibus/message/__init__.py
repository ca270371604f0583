"""The stored form of a message: made on arrival, read by rules, sent out."""
