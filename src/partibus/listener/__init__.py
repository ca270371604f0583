"""The only package that owns sockets: it detects protocols and moves bytes."""
