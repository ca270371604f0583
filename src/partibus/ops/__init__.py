"""What operators look at: health now, metrics and traces beside it."""
