"""Reading messages with Spark: batches, streams, and the tasks that read."""
