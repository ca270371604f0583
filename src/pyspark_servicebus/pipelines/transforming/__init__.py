"""The parts of a transform; the pipeline itself is `pipelines.transform`."""
