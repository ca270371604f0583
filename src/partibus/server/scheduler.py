"""The event loop as brokers and gateways see it.

Owns the adaptation of asyncio to the `Scheduler` interface, in milliseconds. Packages below the
server must never import asyncio for timers.
"""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from partibus.domain.scheduler import Timer

IDLE_POLL_S: Final = 0.005
"""How often a stopping node checks whether its brokers are at rest."""


@dataclass(eq=False, slots=True)
class LoopScheduler:
    """Turns of an asyncio loop."""

    loop: asyncio.AbstractEventLoop

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Run after the current call."""
        self.loop.call_soon(callback)

    def call_later_ms(self, delay_ms: int, callback: Callable[[], None]) -> Timer:
        """Run after this many milliseconds."""
        return self.loop.call_later(delay_ms / 1000, callback)

    def call_from_thread(self, callback: Callable[[], None]) -> None:
        """Run on the loop, called from any thread; ignored if the loop has ended."""
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(callback)


async def until(is_so: Callable[[], bool], limit_s: float) -> None:
    """Wait until a condition holds at two checks in a row, since an answer may lead to another
    request; but not longer than the limit."""
    waited_s, looks = 0.0, 0
    while waited_s < limit_s:
        looks = looks + 1 if is_so() else 0
        if looks == 2:
            return
        await asyncio.sleep(IDLE_POLL_S)
        waited_s += IDLE_POLL_S
