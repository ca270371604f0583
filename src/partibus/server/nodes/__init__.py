"""A server as one node of a cluster: its certificates, its lanes, and how it joins."""
