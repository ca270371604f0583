"""The control plane of a cluster in a PostgreSQL database: its nodes, leases and catalog.

Every table is in the schema `partibus_cluster`, so that the same database can hold lanes as well.
"""
