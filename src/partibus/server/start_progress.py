"""The signs of life of a starting worker.

Owns when one is sent: the start has progressed by a step, and the last sign is a second old. A
start without progress sends none, even if its process runs. Made by the worker; its steps are those
of the recovery and the turns of the loop.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from typing import Final

SIGN_S: Final = 1.0


class StartProgress:
    """Reports that the start makes progress."""

    def __init__(
        self, say: Callable[[], None], now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._say = say
        self._now_s = now_s
        self._said_at = now_s()

    def step(self) -> None:
        """The start has made progress."""
        now_s = self._now_s()
        if now_s - self._said_at >= SIGN_S:
            self._said_at = now_s
            self._say()

    @contextlib.asynccontextmanager
    async def with_the_loop(self) -> AsyncIterator[None]:
        """While a start waits for others, the turns of its loop are its steps."""
        turning = asyncio.create_task(self._turn())
        try:
            yield
        finally:
            turning.cancel()

    async def _turn(self) -> None:
        while True:
            await asyncio.sleep(SIGN_S)
            self.step()
