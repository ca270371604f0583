"""How the Python processes of Spark start in the tests: read by each one that has it in its path.

Spark puts its own packages first in their path, as zip files. What comes from a zip is compiled
anew by every process: two thirds of a second for each reader of a stream and each daemon. The same
packages are installed, with bytecode, so the zips are left out. And the daemon, which forks a
worker for each plan of a data source, loads the large libraries before and not in each worker.
Nothing of ours is among them: whether a worker can load the connector is for the tests to show.
"""

import importlib
import sys
from pathlib import Path

LIBRARIES = ("pandas", "pyarrow.compute", "pyarrow.flight", "pyspark.worker")


def is_zip_of_spark(entry: str) -> bool:
    path = Path(entry)
    return path.suffix == ".zip" and path.name.startswith(("pyspark", "py4j"))


sys.path[:] = [entry for entry in sys.path if not is_zip_of_spark(entry)]
if "pyspark.daemon" in sys.orig_argv:
    for library in LIBRARIES:
        importlib.import_module(library)
