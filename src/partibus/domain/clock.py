"""Time, in milliseconds, through one interface: the time of day, and elapsed time.

Owns the `Clock` protocol and the system clock. No other code reads time: machines get `now_ms` as
an argument, brokers and gateways have a `Clock`, and tests advance a manual one. The time of day
runs with the monotonic clock of the machine and is set only by `follow`, so that intervals stored
as times of day can be shifted (docs/adr/0014-clock.md).
"""

import time
from typing import Final, Protocol


class Clock(Protocol):
    """A source of the current time."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch, UTC; between two calls of `follow` it never steps."""
        ...

    def monotonic_ms(self) -> int:
        """Milliseconds since some point in time; only for intervals, since it never steps."""
        ...

    def follow(self) -> int:
        """Set `now_ms` by the wall clock, if that has stepped; returns by how much.

        Only the server's watch calls it: others must be notified of the step in the same turn.
        """
        ...


STEP_MS_MIN: Final = 100
"""A smaller difference is ignored: the clocks of clients differ by more than that."""
READING_MS_MAX: Final = 20
"""Readings of the two clocks further apart than this are not compared: the process was paused
between them."""


class SystemClock:
    """The clocks of the machine.

    Clients compare the end of a lock with their own clock, so the time of day follows the
    machine's, also after it slept or was set.
    """

    __slots__ = ("_offset_ns",)

    def __init__(self) -> None:
        # Not in milliseconds: two roundings would add up, and show a lock that ends too early.
        self._offset_ns = time.time_ns() - time.monotonic_ns()

    def now_ms(self) -> int:
        return (time.monotonic_ns() + self._offset_ns) // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def follow(self) -> int:
        before_ns = time.monotonic_ns()
        wall_ns = time.time_ns()
        after_ns = time.monotonic_ns()
        if after_ns - before_ns > READING_MS_MAX * 1_000_000:
            return 0
        step_ms = (wall_ns - after_ns - self._offset_ns) // 1_000_000
        if abs(step_ms) < STEP_MS_MIN:
            return 0
        self._offset_ns += step_ms * 1_000_000
        return step_ms
