"""The parts of a replay; the pipeline itself is `pipelines.replay`."""
