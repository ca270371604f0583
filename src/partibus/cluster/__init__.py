"""The protocol between processes: commands as rows, connections to peers, membership."""
