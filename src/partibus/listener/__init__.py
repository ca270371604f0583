"""The only package that owns sockets: it tells protocols apart and pumps bytes."""
