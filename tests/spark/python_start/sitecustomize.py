"""How the Python processes of Spark start in the tests: read by each one that has it in its path.

Spark puts its own packages first in their path, as zip files. What comes from a zip is compiled
anew by every process: two thirds of a second for each reader of a stream and each daemon. The same
packages are installed, with bytecode, so the zips are left out.
"""

import sys
from pathlib import Path


def is_zip_of_spark(entry: str) -> bool:
    path = Path(entry)
    return path.suffix == ".zip" and path.name.startswith(("pyspark", "py4j"))


sys.path[:] = [entry for entry in sys.path if not is_zip_of_spark(entry)]
