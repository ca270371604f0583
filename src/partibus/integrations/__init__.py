"""Small bridges that let other people's frameworks reach a local server."""
