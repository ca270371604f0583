"""What operators look at: health, metrics and traces."""
