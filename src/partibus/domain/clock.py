"""Time, in milliseconds since 1970-01-01 UTC, through one seam.

Owns the `Clock` protocol and the system clock. Nobody else reads time: machines are
handed `now_ms`, runners and gateways hold a `Clock`, and tests advance a manual one.
"""

import time
from typing import Final, Protocol


class Clock(Protocol):
    """A source of the present moment."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch; small corrections never turn it back."""
        ...


STEP_BACK_MS_MAX: Final = 60_000
"""A clock that is set back by less stands still until time has caught up; by more, it is
followed, since standing still for hours would be worse than a time seen twice."""


class SystemClock:
    """The wall clock of the machine, which small corrections never turn back.

    Clients compare the end of a lock with their own clock, so ours follows the machine's,
    also after it slept or was set.
    """

    __slots__ = ("_last_ms",)

    def __init__(self) -> None:
        self._last_ms = 0

    def now_ms(self) -> int:
        now_ms = time.time_ns() // 1_000_000
        last_ms = self._last_ms
        if now_ms < last_ms <= now_ms + STEP_BACK_MS_MAX:
            return last_ms
        self._last_ms = now_ms
        return now_ms
