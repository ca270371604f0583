"""The simulator: the real code of the bus in a world that a seed decides."""
