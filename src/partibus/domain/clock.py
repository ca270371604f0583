"""Time, in milliseconds since 1970-01-01 UTC, through one seam.

Owns the `Clock` protocol and the system clock. Nobody else reads time: machines are
handed `now_ms`, runners and gateways hold a `Clock`, and tests advance a manual one.
"""

import time
from typing import Protocol


class Clock(Protocol):
    """A source of the present moment."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch, never going back within one process."""
        ...


class SystemClock:
    """Wall-clock time anchored once, then advanced by the monotonic clock.

    A step of the machine's clock (NTP, a suspended laptop) must not expire every lock at
    once or move enqueued times backwards, so only the starting point is wall time.
    """

    __slots__ = ("_offset_ns",)

    def __init__(self) -> None:
        self._offset_ns = time.time_ns() - time.monotonic_ns()

    def now_ms(self) -> int:
        return (time.monotonic_ns() + self._offset_ns) // 1_000_000
