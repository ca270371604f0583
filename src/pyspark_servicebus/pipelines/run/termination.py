"""SIGTERM ends a program like Ctrl-C does, and the exit code distinguishes them.

Owns the handler during a block. A pipeline only ever sees KeyboardInterrupt; one that treats it as
its end, as continuous ones do, ends successfully. Called by verbs, scripts and declared files.
"""

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any, Final

EXIT_INTERRUPTED: Final = 130
EXIT_TERMINATED: Final = 143
"""128 plus the number of the signal, as in shells."""


@contextlib.contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """Inside, SIGTERM is KeyboardInterrupt; when it leaves the block, it becomes the exit code."""
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
