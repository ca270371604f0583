"""A scheduler driven by hand: callbacks and timers run when a test says so.

Owns the order of callbacks in tests of brokers and gateways, deterministically: first in, first
out, timers by their time. Advances a `ManualClock` along with its timers.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush

from partibus.testing.clock import ManualClock


@dataclass(eq=False, slots=True)
class ManualTimer:
    """A timer that can be cancelled."""

    callback: Callable[[], None]
    is_cancelled: bool = field(init=False, default=False)

    def cancel(self) -> None:
        """Never run."""
        self.is_cancelled = True


class ManualScheduler:
    """Keeps the `Scheduler` contract without an event loop."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self._soon: deque[Callable[[], None]] = deque()
        self._timers: list[tuple[int, int, ManualTimer]] = []
        self._count = 0

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Run at the next `run`."""
        self._soon.append(callback)

    def call_later_ms(self, delay_ms: int, callback: Callable[[], None]) -> ManualTimer:
        """Run when the time has come."""
        timer = ManualTimer(callback)
        self._count += 1
        heappush(self._timers, (self.clock.monotonic_ms() + delay_ms, self._count, timer))
        return timer

    def crash(self) -> None:
        """Forget all callbacks, as at the end of a process."""
        self._soon.clear()
        self._timers.clear()

    def run(self) -> None:
        """Run everything that is due now, and what follows from it."""
        while self._soon:
            self._soon.popleft()()

    def advance_ms(self, delta_ms: int) -> None:
        """Let time pass, running timers at their due times."""
        self.run()
        end_ms = self.clock.monotonic_ms() + delta_ms
        while self._timers and self._timers[0][0] <= end_ms:
            at_ms, _, timer = heappop(self._timers)
            if timer.is_cancelled:
                continue
            self.clock.advance_ms(max(0, at_ms - self.clock.monotonic_ms()))
            timer.callback()
            self.run()
        self.clock.advance_ms(end_ms - self.clock.monotonic_ms())
        self.run()
