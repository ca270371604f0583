"""The vocabulary of the bus: imports nothing of ours and does no input or output."""
