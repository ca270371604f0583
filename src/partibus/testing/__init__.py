"""The kit that tests of the bus and of its users share."""
