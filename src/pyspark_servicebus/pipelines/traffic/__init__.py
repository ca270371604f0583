"""The traffic of entities in numbers and pictures.

The pipeline itself is `pipelines.analytics`; these are its parts.
"""
