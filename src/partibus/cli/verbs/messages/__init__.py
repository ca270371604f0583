"""Verbs that send, receive, look at and delete messages."""
