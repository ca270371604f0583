"""A worker that hangs is killed, so that it can be replaced.

Owns the decision that a worker hangs: it is asked for a sign of life once a second, and killed if
it gives none within the limit. A hanging process does not react to a request to stop, and its
listening socket would keep its share of the new connections. The supervisor restarts it. A worker
is watched from when it is ready until the server stops. While it starts it is not asked, since it
is busy with its stores: it reports its progress itself, however long that takes, and is killed if
it reports nothing for much longer than the limit.
"""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

PING_S: Final = 1.0
START_LIMITS: Final = 12
"""A starting worker may be silent for this many limits: 60 s by default. Between two signs it reads
a checkpoint, starts one large fragment, or waits for a slow disk."""

SUPERVISOR_SILENT_S: Final = 30.0
"""A supervisor that once asked, and has not asked again for this long, hangs: it could not replace
a worker. Many times the pause between its questions, since a loaded machine delays them."""

log = logging.getLogger(__name__)


class SupervisorHeard:
    """The supervisor, as a worker sees it: whether it still asks for signs of life."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._asked_s: float | None = None

    def asks(self) -> None:
        """A question arrived."""
        self._asked_s = self._now_s()

    def is_at_work(self) -> bool:
        """Whether it asks; one that watches no worker (a limit of 0) never does, and its end would
        be noticed by the pipe."""
        return self._asked_s is None or self._now_s() - self._asked_s < SUPERVISOR_SILENT_S


class Watched(Protocol):
    """One incarnation of one worker, as the watchdog sees it."""

    pid: int
    signs_of_life: int
    """How often it has reported progress during its start."""

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
        self._silences_max = START_LIMITS * self._misses_max
        self._sleep = sleep

    async def watch(self, number: int, process: Watched) -> None:
        """Ask until it does not answer any more, then kill it."""
        # Counted in questions, so that a pause of this process is not mistaken for one of the
        # worker.
        misses = 0
        while misses < self._misses_max:
            if await process.is_alive(PING_S):
                misses = 0
                await self._sleep(PING_S)
            else:
                misses += 1
        if self._misses_max:
            log.error(
                "worker %d (process %d) has not answered for %.0f s: killing it",
                number,
                process.pid,
                misses * PING_S,
            )
            process.kill()

    async def watch_start(self, number: int, process: Watched) -> None:
        """Wait until a starting worker makes no more progress, then kill it."""
        silences, signs = 0, process.signs_of_life
        while silences < self._silences_max:
            await self._sleep(PING_S)
            silences = silences + 1 if process.signs_of_life == signs else 0
            signs = process.signs_of_life
        if not self._silences_max:
            await asyncio.Event().wait()
        log.error(
            "worker %d (process %d) has made no progress for %.0f s while starting: killing it",
            number,
            process.pid,
            silences * PING_S,
        )
        process.kill()
