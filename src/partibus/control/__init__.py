"""The control plane: catalog, definitions and access policies, beside the data path."""
