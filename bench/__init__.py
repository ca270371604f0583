"""The benchmarks: `make bench`, or `python -m bench --help`. docs/internals/hot-path.md."""
