"""Dead letters of a whole namespace: why they are there, and what becomes of them.

The pipeline itself is `pipelines.deadletters`; these are its parts.
"""
