"""Functions for `mapInArrow` that fail on purpose, once.

What is sent to Spark's workers must not need this module there, so each function is made inside
another and travels by value. A file tells that it has failed: tasks share nothing else.
"""

from collections.abc import Callable, Iterator
from typing import Any


def fails_once(marker: str, rows: int) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Passes rows on one by one, and fails in the middle of the first task that comes so far."""

    def passed_on(batches: Iterator[Any]) -> Iterator[Any]:
        from pathlib import Path

        count = 0
        for batch in batches:
            for row in range(batch.num_rows):
                count += 1
                if count == rows and not Path(marker).exists():
                    Path(marker).touch()
                    raise RuntimeError("on purpose")
                yield batch.slice(row, 1)

    passed_on.__module__ = "__main__"
    return passed_on
