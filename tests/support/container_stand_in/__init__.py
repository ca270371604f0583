"""Stand-ins for Testcontainers: the real modules of ours run on processes instead of containers."""
