"""The world: simulated time, and everything that happens in it, in one order.

Owns the queue of what is due, the count of steps and the hash of what has happened. One step runs
one callback of one event loop, one piece of a simulated thread, or one arrival of bytes; between
any two steps a process may die. All randomness comes from `chance(NAME)`, a stream of numbers
determined by the seed and the name, so that a change in one part of a run does not affect the
others. Must never read a clock of the machine.
"""

import asyncio
import hashlib
from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from partibus.simulation.event_loop import SimulatedLoop

START_MS = 1_700_000_000_000
"""The time of day when a world begins."""


class Crashed(BaseException):
    """The process of this code is dead: none of it continues."""


class Violation(Exception):
    """The bus broke a promise."""


class World:
    """One run of the simulator."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.now_us = 0
        self.steps = 0
        self.running: SimulatedLoop | None = None
        """The loop whose batch is being run."""
        self.on_crash: Callable[[str], None] = _nobody
        """Called with the name of a process that died within one of its callbacks."""
        self.faults: list[str] = []
        """Errors in callbacks, which a real server would log or die of."""
        self.events: list[tuple[int, int, str, str]] | None = None
        """(step, microseconds, who, what) when events are recorded."""
        self.graveyard: list[object] = []
        """Objects of dead processes: freed at the end, so that nothing is finalised before."""
        self._due: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._count = 0
        self._hash = hashlib.blake2b(digest_size=8)
        self._chances: dict[str, Random] = {}

    def chance(self, name: str) -> Random:
        """The stream of random numbers of that name."""
        found = self._chances.get(name)
        if found is None:
            found = self._chances[name] = stream(self.seed, name)
        return found

    def at(self, time_us: int, callback: Callable[..., None], *args: Any) -> None:
        """Schedule something; what is due at the same time happens in the order of scheduling."""
        self._count += 1
        heappush(self._due, (max(time_us, self.now_us), self._count, callback, args))

    def after(self, delay_us: int, callback: Callable[..., None], *args: Any) -> None:
        """The same, from now."""
        self.at(self.now_us + delay_us, callback, *args)

    def note(self, who: str, what: str) -> None:
        """Record an event."""
        self._hash.update(f"{self.now_us} {who} {what}\n".encode())
        if self.events is not None:
            self.events.append((self.steps, self.now_us, who, what))

    @property
    def trace_hash(self) -> str:
        """What has happened so far, as sixteen digits."""
        return self._hash.hexdigest()

    @property
    def is_over(self) -> bool:
        """Whether nothing will ever happen again."""
        return not self._due and (self.running is None or not self.running.batch)

    def step(self) -> None:
        """Let one thing happen."""
        self.steps += 1
        loop = self.running
        if loop is not None and loop.batch:
            loop.run_one()
            return
        self.running = None
        time_us, _, callback, args = heappop(self._due)
        self.now_us = time_us
        callback(*args)

    def forget(self) -> None:
        """Release everything."""
        asyncio._set_running_loop(None)
        self._due.clear()
        self.running = None
        self.graveyard.clear()


def stream(seed: int, name: str) -> Random:
    """Numbers determined by the seed and the name, the same in every process."""
    return Random(f"{seed}/{name}")  # noqa: S311 - it must be reproducible


def _nobody(name: str) -> None:
    """Ignores the call."""
