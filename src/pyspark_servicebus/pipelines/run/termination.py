"""SIGTERM ends what runs in the foreground as Ctrl-C does, and the exit code tells them apart.

Owns the handler for the time of a block. A pipeline only ever sees KeyboardInterrupt; one that
takes it for its end, as continuous ones do, ends well. Called by whoever runs pipelines: verbs,
scripts and declared files.
"""

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any, Final

EXIT_INTERRUPTED: Final = 130
EXIT_TERMINATED: Final = 143
"""128 and the number of the signal, as shells say it."""


@contextlib.contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """Inside, SIGTERM is KeyboardInterrupt; what comes out of the block for it is its exit code."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    seen = threading.Event()

    def interrupt(number: int, frame: Any) -> None:
        seen.set()
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    except KeyboardInterrupt:
        if not seen.is_set():
            raise
        raise SystemExit(EXIT_TERMINATED) from None
    finally:
        signal.signal(signal.SIGTERM, before)
