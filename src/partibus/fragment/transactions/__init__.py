"""Transactions: several commands in one entry of the log, or none of them."""
