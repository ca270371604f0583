"""The watch over the wall clock, which may be set while the server runs.

Owns the one place where a step of the clock is noticed: once a second, in a turn of its own, in
which every part that stores an interval as a time of day shifts it by the same amount. It must
never decide what to shift: that is up to those parts (docs/adr/0014-clock.md). Made by the node.
"""

import logging
from collections.abc import Callable
from typing import Final

from partibus.domain.clock import Clock
from partibus.domain.scheduler import Scheduler, Timer

LOOK_MS: Final = 1000
"""How often the clocks are compared: the maximum delay until a step is noticed."""

_log: Final = logging.getLogger(__name__)


class ClockWatch:
    """Compares the clock with the time of day; calls `stepped` with the size of a step."""

    def __init__(self, clock: Clock, scheduler: Scheduler, stepped: Callable[[int], None]) -> None:
        self._clock = clock
        self._scheduler = scheduler
        self._stepped = stepped
        self._timer: Timer | None = None

    def start(self) -> None:
        """Start watching."""
        self._timer = self._scheduler.call_later_ms(LOOK_MS, self._look)

    def stop(self) -> None:
        """Stop watching."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self.start()
        delta_ms = self._clock.follow()
        if delta_ms:
            way = "forward" if delta_ms > 0 else "back"
            _log.warning("the system clock was set %s by %.1f s", way, abs(delta_ms) / 1000)
            self._stepped(delta_ms)
