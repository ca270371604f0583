"""The operations of the `$management` node, one subject a module."""
