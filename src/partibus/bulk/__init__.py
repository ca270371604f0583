"""The bulk path: whole ranges of messages at a time, for pipelines."""
