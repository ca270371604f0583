"""Writing messages with Spark: rows to messages, delivery, staged batches."""
