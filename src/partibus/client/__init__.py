"""A small asyncio client on our own engine, for tools, tests and benchmarks."""
