"""A thread for what may take long: blocking reads, checkpoints, deleting files.

Owns the thread and its queue; it starts with the first job, since most stores need none. Jobs run
one after the other and report their outcome on the loop themselves. Called by the store on the loop
thread.
"""

import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final

_log: Final = logging.getLogger(__name__)


class Worker:
    """Runs jobs in order on one separate thread."""

    __slots__ = ("_closed", "_jobs", "_name", "_thread")

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closed = False

    @property
    def started(self) -> bool:
        """Whether there was ever a job."""
        return self._thread is not None

    def submit(self, job: Callable[[], None]) -> bool:
        """Run the job after those before it; returns False when closed and it will not run."""
        if self._closed:
            return False
        self._jobs.put(job)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        return True

    def close(self) -> None:
        """Run the submitted jobs, then end the thread."""
        self._closed = True
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            except Exception:
                _log.exception("a job of %s failed", self._name)
