"""A lock that one process of this machine has at a time, given back when it dies.

Owns the file that is locked and nothing else: what is to be done alone, and the words for whoever
comes second, are the caller's. Called by declared pipelines and by captures.
"""

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path

from pyspark_servicebus.pipelines.run.progress import PipelineFailed


@contextlib.contextmanager
def in_one_process(file: Path, refusal: str) -> Iterator[None]:
    """Hold the lock of a file for the time of the block; PipelineFailed when another has it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise PipelineFailed(refusal) from None
        yield
