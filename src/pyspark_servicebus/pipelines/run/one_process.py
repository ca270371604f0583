"""A lock that one process of this machine holds at a time, released when it dies.

Owns only the locked file: the caller decides what it protects, and the error text for a second
process. Called by declared pipelines and by captures.
"""

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path

from pyspark_servicebus.pipelines.run.progress import PipelineFailed


@contextlib.contextmanager
def in_one_process(file: Path, refusal: str) -> Iterator[None]:
    """Hold the lock of a file during the block; PipelineFailed when another process has it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise PipelineFailed(refusal) from None
        yield
