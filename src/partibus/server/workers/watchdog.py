"""A worker that hangs is ended, so that it can be replaced.

Owns the judgement that a worker hangs: it is asked for a sign of life once a second, and one that
gives none for as long as the limit says is killed. What has stopped cannot be asked to leave, and
a listening socket that nobody serves keeps its share of the new connections. Starting it again is
the supervisor's work. A worker is watched from when it is ready until the server stops.
"""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

PING_S: Final = 1.0

log = logging.getLogger(__name__)


class Watched(Protocol):
    """One life of one worker, as the watchdog sees it."""

    pid: int

    async def is_alive(self, within_s: float) -> bool:
        """Whether it gives a sign of life within this time."""
        ...

    def kill(self) -> None: ...


class Watchdog:
    """Watches any number of workers; a limit of 0 seconds watches none."""

    def __init__(
        self, limit_s: float, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self._misses_max = math.ceil(limit_s / PING_S)
        self._sleep = sleep

    async def watch(self, number: int, process: Watched) -> None:
        """Ask until it does not answer any more, and end it then."""
        # Counted in questions, so that a pause of this process is not taken for one of the other.
        misses = 0
        while misses < self._misses_max:
            if await process.is_alive(PING_S):
                misses = 0
                await self._sleep(PING_S)
            else:
                misses += 1
        if self._misses_max:
            log.error(
                "worker %d (process %d) has not answered for %.0f s: ending it",
                number,
                process.pid,
                misses * PING_S,
            )
            process.kill()
