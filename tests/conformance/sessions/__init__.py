"""A package: what its tests share, such as a server, ends with the last of them."""
