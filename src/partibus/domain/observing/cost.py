"""The processor time that this process spends on observers.

Owns which requests are those of observers, and one counter: the time of metrics, health checks,
events and the pages of the console, in every thread. Time is measured around each uninterrupted
step, so that other tasks that run while an answer waits are not counted; nested measurements are
counted once. Used where such requests arrive and where they are answered; read by the metrics.
"""

import threading
import time
from collections.abc import Callable, Coroutine, Generator
from types import coroutine
from typing import Any, Final, TypeVar

from partibus.domain.address import ADMINISTRATION

T = TypeVar("T")

_LOOKED_AT: Final = ("/metrics", ADMINISTRATION, "/console", "/health", "/livez", "/readyz")


class CostMeter:
    """Seconds of processor time; safe to use from several threads."""

    def __init__(self, thread_s: Callable[[], float] = time.thread_time) -> None:
        self.seconds = 0.0
        self._thread_s = thread_s
        self._inside = threading.local()
        self._turn = threading.Lock()

    def begin(self) -> float:
        """Start to measure; returns a negative value when that is done already."""
        if getattr(self._inside, "is_measured", False):
            return -1.0
        self._inside.is_measured = True
        return self._thread_s()

    def end(self, begun_s: float) -> None:
        """Stop measuring."""
        if begun_s >= 0.0:
            self._inside.is_measured = False
            self.add(self._thread_s() - begun_s)

    def add(self, spent_s: float) -> None:
        """Add what was measured elsewhere."""
        with self._turn:
            self.seconds += spent_s

    def around(self, work: Callable[[], T]) -> T:
        """Call something, and measure it."""
        begun_s = self.begin()
        try:
            return work()
        finally:
            self.end(begun_s)


OBSERVING: Final = CostMeter()


def is_observer(method: str, path: str) -> bool:
    """Whether an HTTP request is an observer's."""
    return method in ("GET", "HEAD") and path.startswith(_LOOKED_AT)


@coroutine
def observing(work: Coroutine[Any, Any, T], meter: CostMeter = OBSERVING) -> Generator[Any, Any, T]:
    """Await something, and measure each of its steps."""
    value: Any = None
    error: BaseException | None = None
    while True:
        begun_s = meter.begin()
        try:
            waits_for = work.send(value) if error is None else work.throw(error)
        except StopIteration as ended:
            result: T = ended.value
            return result
        finally:
            meter.end(begun_s)
        try:
            value, error = (yield waits_for), None
        except BaseException as raised:  # mostly a cancellation
            value, error = None, raised
