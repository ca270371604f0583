"""A simulated cluster: nodes, and the databases that they share."""
