"""The memory that the process uses for its clients: its account, waiting for room, and freeing."""
