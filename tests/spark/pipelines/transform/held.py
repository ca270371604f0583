"""A function of a transform that fails for some messages, and stands still in the search for them.

Read by the command line, in its own process. It holds once, in the search of the second batch: the
file that HELD names is made then, and where it is there already nothing is held any more.
"""

import os
import threading
import traceback
from pathlib import Path
from typing import Any

BATCH = 1
CALL = 3
"""The search is under way: some parts of the batch were tried, others were not."""


def tenths_fail(frame: Any) -> Any:
    """Fails for numbers that end with 0."""
    from pyspark.sql import functions as f

    _hold()
    number = f.col("body").cast("string").cast("int")
    return frame.withColumn("subject", (f.lit(100) / (number % 10)).cast("string"))


def _hold() -> None:
    mark = Path(os.environ["HELD"])
    if mark.exists() or not _is_searching():
        return
    # The file of a function is read again for every call: nothing is remembered in here.
    with mark.with_suffix(".calls").open("a") as calls:
        calls.write(".")
        number = calls.tell()
    if number == CALL:
        mark.touch()
        threading.Event().wait()


def _is_searching() -> bool:
    """Whether the search of that batch is what calls."""
    frames = {frame.f_code.co_name: frame for frame, _ in traceback.walk_stack(None)}
    return "_search" in frames and frames["_write"].f_locals["batch_id"] == BATCH
