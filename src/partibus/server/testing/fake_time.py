"""Time under the control of a test: a clock that can be advanced, and its timers.

Owns the time of one namespace on a test server (docs/adr/0019-test-namespaces.md). It runs as the
machine's clock does, and `advance` adds to it: what falls due on the way runs at its own time and
in order, before the call returns. Only messages and entities use this time. Connections, heartbeats
and tokens stay on the machine's clock, as the clients do. Made by the node, advanced by the clock
service.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Final

from partibus.domain.clock import Clock
from partibus.domain.scheduler import Scheduler

QUIET_TURNS: Final = 4
"""The bus is at rest when nothing waits in this many turns of the loop in a row: an answer may lead
to another command, as when a scheduled message is forwarded."""
SWIFT_TURNS: Final = 200
SETTLE_TURNS_MAX: Final = 5_200
SETTLE_POLL_S: Final = 0.002
"""A bus that does not come to rest within ten seconds, because clients keep it busy or a store was
made slow, is not waited for any longer."""


@dataclass(eq=False, slots=True)
class FakeClock:
    """The machine's clock plus the advanced time."""

    machine: Clock
    advanced_ms: int = field(init=False, default=0)

    def now_ms(self) -> int:
        return self.machine.now_ms() + self.advanced_ms

    def monotonic_ms(self) -> int:
        return self.machine.monotonic_ms() + self.advanced_ms

    def follow(self) -> int:
        return self.machine.follow()

    def advance_to(self, monotonic_ms: int) -> None:
        """Advance to that time, unless it is later already."""
        self.advanced_ms += max(0, monotonic_ms - self.monotonic_ms())


@dataclass(eq=False, slots=True)
class FakeTimer:
    """A timer on fake time."""

    at_ms: int
    callback: Callable[[], None]
    is_cancelled: bool = field(init=False, default=False)

    def cancel(self) -> None:
        """Never run."""
        self.is_cancelled = True


class FakeTime:
    """A clock and its timers; keeps the `Scheduler` contract on an asyncio loop."""

    def __init__(self, machine: Clock, loop: asyncio.AbstractEventLoop) -> None:
        self.clock = FakeClock(machine)
        self._loop = loop
        self._timers: list[tuple[int, int, FakeTimer]] = []
        self._count = 0
        self._armed: asyncio.TimerHandle | None = None
        self._advancing = asyncio.Lock()

    # --- the scheduler ----------------------------------------------------------------------

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Run after the current call."""
        self._loop.call_soon(callback)

    def call_later_ms(self, delay_ms: int, callback: Callable[[], None]) -> FakeTimer:
        """Run after this many milliseconds of fake time."""
        timer = FakeTimer(self.clock.monotonic_ms() + delay_ms, callback)
        self._count += 1
        heappush(self._timers, (timer.at_ms, self._count, timer))
        if self._timers[0][2] is timer:
            self._arm()
        return timer

    def stop(self) -> None:
        """Run nothing any more."""
        self._timers.clear()
        self._arm()

    def _arm(self) -> None:
        """Have the loop call at the time of the first timer."""
        if self._armed is not None:
            self._armed.cancel()
            self._armed = None
        if self._timers:
            delay_ms = max(0, self._timers[0][0] - self.clock.monotonic_ms())
            self._armed = self._loop.call_later(delay_ms / 1000, self._on_time)

    def _on_time(self) -> None:
        self._armed = None
        self._run_until(self.clock.monotonic_ms())
        self._arm()

    def _run_until(self, moment_ms: int) -> None:
        """Run the timers up to a time; timers that they set are left for another call."""
        due = []
        while self._timers and self._timers[0][0] <= moment_ms:
            due.append(heappop(self._timers)[2])
        for timer in due:
            if not timer.is_cancelled:
                timer.callback()

    # --- advancing --------------------------------------------------------------------------

    async def advance_ms(
        self,
        delta_ms: int,
        is_at_rest: Callable[[], bool],
        at_each: Callable[[], Awaitable[object]],
        look: Callable[[], None],
    ) -> None:
        """Let time pass. Returns when everything that fell due has happened; `at_each` is awaited
        at each time at which something is due, before it happens, and at the end. Timers may come a
        little late, since some fire together; `look` finds what they have left."""
        async with self._advancing:
            total_ms = self.clock.advanced_ms + delta_ms
            end_ms = self.clock.monotonic_ms() + delta_ms
            while (moment_ms := self._next_ms()) is not None and moment_ms <= end_ms:
                self.clock.advance_to(moment_ms)
                await at_each()
                self._run_until(moment_ms)
                await settle(is_at_rest)
            # Exactly as much as requested, however much of the machine's time has passed
            # meanwhile.
            self.clock.advanced_ms = total_ms
            await at_each()
            look()
            await settle(is_at_rest)
            self._arm()

    def _next_ms(self) -> int | None:
        """When the next timer is due."""
        while self._timers and self._timers[0][2].is_cancelled:
            heappop(self._timers)
        return self._timers[0][0] if self._timers else None


class BusTime:
    """The time of messages and entities, and its timers: the machine's, or fake."""

    def __init__(
        self, clock: Clock, scheduler: Scheduler, fake_on: asyncio.AbstractEventLoop | None
    ) -> None:
        self.fake = None if fake_on is None else FakeTime(clock, fake_on)
        self.clock: Clock = clock if self.fake is None else self.fake.clock
        self.timers: Scheduler = scheduler if self.fake is None else self.fake

    def stop(self) -> None:
        """Run nothing any more."""
        if self.fake is not None:
            self.fake.stop()


async def settle(is_at_rest: Callable[[], bool]) -> None:
    """Let the loop run until nothing waits for a turn or a store any more."""
    quiet = 0
    for turn in range(SETTLE_TURNS_MAX):
        await asyncio.sleep(0 if turn < SWIFT_TURNS else SETTLE_POLL_S)
        quiet = quiet + 1 if is_at_rest() else 0
        if quiet == QUIET_TURNS:
            return
