"""Stands in for the package of this name, where no container engine is."""
