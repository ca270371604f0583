"""The workers of a server, kept alive.

Owns their processes and nothing of their work: all are started and awaited before the server counts
as ready, one that dies or hangs is restarted while the others go on, one that keeps dying ends the
whole server with a reason, and a stop waits for all. No message ever passes through here. Called by
`supervision`, which prepares what the workers share.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, Protocol

from partibus.server.workers.restarts import DEATHS_MAX, DEATHS_WINDOW_S, RestartPolicy
from partibus.server.workers.watchdog import Watchdog

STOP_S_MAX: Final = 60.0
"""A worker flushes for at most 30 s and closes connections for 5; after that it is killed."""

log = logging.getLogger(__name__)


class Process(Protocol):
    """One incarnation of one worker."""

    pid: int
    signs_of_life: int

    async def wait_checked(self) -> bool: ...

    def go(self) -> None: ...

    async def wait_ready(self) -> bool: ...

    async def wait(self) -> int: ...

    async def is_alive(self, within_s: float) -> bool: ...

    def terminate(self) -> None: ...

    def kill(self) -> None: ...


class WorkerFailed(Exception):
    """A worker cannot be started; `exit_code` is that of the whole server."""

    def __init__(self, text: str, exit_code: int) -> None:
        super().__init__(text)
        self.exit_code = exit_code


class Supervisor:
    """All workers of one server."""

    def __init__(
        self,
        workers: int,
        launch: Callable[[int], Awaitable[Process]],
        now_s: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        watchdog: Watchdog | None = None,
        settle: Callable[[], None] = lambda: None,
    ) -> None:
        self._numbers = range(workers)
        self._launch = launch
        self._now_s = now_s
        self._settle = settle
        """Called once, when every worker has found its stores in order."""
        self._sleep = sleep
        self._watchdog = watchdog
        self._processes: dict[int, Process] = {}
        self._policies = [RestartPolicy() for _ in self._numbers]
        self._keepers: list[asyncio.Task[None]] = []
        self._watches: dict[int, asyncio.Task[None]] = {}
        self._hanging: set[int] = set()
        """Workers that were killed during their start."""
        self._is_stopping = False

    async def start(self) -> None:
        """Start all and return when all serve; WorkerFailed when one cannot.

        No worker continues, and nothing is written, before all have checked their stores.
        """
        await asyncio.gather(*(self._begin(number) for number in self._numbers))
        await self._for_all(self._await_checked)
        self._settle()
        await self._for_all(self._await_ready)
        for number in self._numbers:
            self._keepers.append(asyncio.create_task(self._keep(number)))

    async def _for_all(self, step: Callable[[int], Awaitable[None]]) -> None:
        """Have all workers do a step of the start; the first failure ends the server."""
        ends = await asyncio.gather(*map(step, self._numbers), return_exceptions=True)
        for end in ends:
            if end is not None:
                raise end

    async def _await_checked(self, number: int) -> None:
        while not await self._watched(number, self._processes[number].wait_checked()):
            await self._replace_hanging(number)

    async def _await_ready(self, number: int) -> None:
        self._processes[number].go()
        while not await self._watched(number, self._processes[number].wait_ready()):
            await self._replace_hanging(number)
            await self._await_checked(number)
            self._processes[number].go()

    async def _watched(self, number: int, answer: Coroutine[Any, Any, bool]) -> bool:
        """The answer of a starting worker; False when it has ended, or was killed because it
        hung."""
        process = self._processes[number]
        if self._watchdog is None:
            return await answer
        answering = asyncio.create_task(answer)
        watch = asyncio.create_task(self._watchdog.watch_start(number, process))
        try:
            await asyncio.wait([answering, watch], return_when=asyncio.FIRST_COMPLETED)
            if watch.done():
                watch.result()
                self._hanging.add(number)
                return False
            return answering.result()
        finally:
            answering.cancel()
            watch.cancel()

    async def _replace_hanging(self, number: int) -> None:
        """Restart a worker that hung in the first start; any other end stops the server."""
        code = await self._processes[number].wait()
        pause_s = self._policies[number].pause_s(self._now_s())
        if number not in self._hanging or pause_s is None:
            raise WorkerFailed(f"worker {number} did not start", code if code > 0 else 1)
        self._hanging.discard(number)
        await self._sleep(pause_s)
        await self._begin(number)

    async def watch(self) -> None:
        """Keep the workers alive; ends with WorkerFailed, or when `stop` was called."""
        await asyncio.gather(*self._keepers)

    async def stop(self) -> None:
        """Stop all cleanly, and kill those that do not stop."""
        self._is_stopping = True
        # A stopping worker may be busy with its stores for longer than the limit for a hang.
        for watch in self._watches.values():
            watch.cancel()
        for process in self._processes.values():
            process.terminate()
        ends = [asyncio.ensure_future(process.wait()) for process in self._processes.values()]
        if ends:
            _, late = await asyncio.wait(ends, timeout=STOP_S_MAX)
            if late:
                log.error("%d workers did not stop in time and are killed", len(late))
                for process in self._processes.values():
                    process.kill()
                await asyncio.wait(late)
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)

    async def _begin(self, number: int) -> None:
        process = await self._launch(number)
        self._processes[number] = process
        if self._is_stopping:
            process.terminate()
        log.info("worker %d runs as process %d", number, process.pid)

    async def _end_of(self, number: int, process: Process) -> int:
        """The exit code of a worker, which is killed if it hangs; not while it stops."""
        if self._watchdog is None:
            return await process.wait()
        watch = asyncio.create_task(self._watchdog.watch(number, process))
        self._watches[number] = watch
        try:
            return await process.wait()
        finally:
            watch.cancel()

    def _must_stop(self) -> bool:
        return self._is_stopping

    async def _keep(self, number: int) -> None:
        """Restart a worker whenever it ends."""
        while True:
            code = await self._end_of(number, self._processes[number])
            if self._must_stop():
                return
            pause_s = self._policies[number].pause_s(self._now_s())
            if pause_s is None:
                raise WorkerFailed(
                    f"worker {number} ended {DEATHS_MAX} times within {DEATHS_WINDOW_S:.0f} s, "
                    f"the last time with code {code}; see the log above",
                    1,
                )
            log.error("worker %d ended with code %d: starting it again", number, code)
            await self._sleep(pause_s)
            if self._must_stop():
                return
            await self._begin(number)
            if not await self._watched(number, self._processes[number].wait_checked()):
                continue
            self._processes[number].go()
            if await self._watched(number, self._processes[number].wait_ready()):
                log.info("worker %d serves again", number)
