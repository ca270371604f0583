"""Several processes as one server: the supervisor and its workers."""
