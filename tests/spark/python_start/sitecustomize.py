"""How the Python processes of Spark start in the tests: read by each one that has it in its path.

Spark puts its own packages first in their path, as zip files. What comes from a zip is compiled
again by every process: two thirds of a second for each reader of a stream and each daemon. The same
packages are installed, with bytecode, so the zips are left out.

The daemon of tasks forks a process for each, which then loads pandas, Arrow and the connector: most
of a second. Here the daemon has loaded them. Spark does not, since it cannot know what threads a
package starts; these start only threads of allocators, which a fork does not harm. The daemons that
plan and commit fork a single process each, so they load nothing in advance.
"""

import gc
import importlib
import sys
from pathlib import Path

DAEMON_OF_TASKS = ["-m", "pyspark.daemon", "pyspark.worker"]
PRELOADED = (
    "pandas",
    "pyarrow.flight",
    "pyspark.worker",
    "pyspark_servicebus.data_source",
    "pyspark_servicebus.sink.writers",
    "pyspark_servicebus.source.batch_reader",
)
"""What tasks load; they load all the others."""


def is_zip_of_spark(entry: str) -> bool:
    path = Path(entry)
    return path.suffix == ".zip" and path.name.startswith(("pyspark", "py4j"))


def preload() -> None:
    for name in PRELOADED:
        importlib.import_module(name)
    gc.freeze()  # a collection in a child would copy the pages of all this


sys.path[:] = [entry for entry in sys.path if not is_zip_of_spark(entry)]
if sys.orig_argv[1:] == DAEMON_OF_TASKS:
    preload()
