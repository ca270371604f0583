"""Transactions of clients: their control link, their scope, their work."""
