"""An event loop without sockets, whose time is the world's.

Owns the callbacks and timers of one simulated process, for code that is written for asyncio: tasks,
futures, time-outs and connections work as they do elsewhere. Callbacks of a loop that has died
never run. `Net` owns the connections.
"""

import asyncio
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from partibus.simulation.world import Crashed, Violation, World

if TYPE_CHECKING:
    from partibus.simulation.net import Net

TURN_US_MAX = 40
"""How long a turn of the loop may take."""


@dataclass(eq=False, slots=True)
class Handle:
    """A callback that can be cancelled."""

    callback: Callable[..., object]
    args: tuple[Any, ...]
    when_s: float
    is_cancelled: bool = False

    def cancel(self) -> None:
        self.is_cancelled = True

    def cancelled(self) -> bool:
        return self.is_cancelled

    def when(self) -> float:
        return self.when_s


class SimulatedLoop(asyncio.AbstractEventLoop):
    """The loop of one process, or of all clients."""

    def __init__(self, world: World, net: "Net", name: str) -> None:
        self.world = world
        self.net = net
        self.name = name
        self.is_alive = True
        self.paused_until_us = 0
        self.batch = 0
        """Callbacks of the current turn that have not run yet."""
        self.start_thread: Callable[[Callable[[], None]], None] | None = None
        """Starts a thread for blocking work, in its process."""
        self._ready: deque[Handle] = deque()
        self._is_turn_due = False
        self._jitter = world.chance(f"turns/{name}")

    # --- what asyncio asks for --------------------------------------------------------------

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: object = None
    ) -> Handle:
        handle = Handle(callback, args, self.time())
        self._make_ready(handle)
        return handle

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: object = None
    ) -> Handle:
        return self.call_soon(callback, *args)

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: object = None
    ) -> Handle:
        return self.call_at(self.time() + delay, callback, *args)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: object = None
    ) -> Handle:
        handle = Handle(callback, args, when)
        if self.is_alive:
            self.world.at(round(when * 1_000_000), self._make_ready, handle)
        return handle

    def time(self) -> float:
        return self.world.now_us / 1_000_000

    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, Any], *, name: str | None = None, context: object = None
    ) -> "asyncio.Task[Any]":
        task = asyncio.Task(coro, loop=self, name=name)
        self.world.graveyard.append(task)
        return task

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if self.is_alive:
            error = context.get("exception")
            self.world.faults.append(f"{self.name}: {context.get('message')}: {error!r}")

    async def create_connection(  # type: ignore[override]
        self, factory: Callable[[], asyncio.Protocol], host: str, port: int, **_: object
    ) -> tuple[object, asyncio.Protocol]:
        return await self.net.connect(self, factory, host)

    def run_in_executor(  # type: ignore[override]
        self, executor: None, func: Callable[..., Any], *args: Any
    ) -> "asyncio.Future[Any]":
        """Run blocking work in a thread of this process."""
        future: asyncio.Future[Any] = asyncio.Future(loop=self)

        def run() -> None:
            try:
                result = func(*args)
            except Exception as error:
                self.call_soon(settle, future, None, error)
            else:
                self.call_soon(settle, future, result, None)

        assert self.start_thread is not None, "this loop has no threads"
        self.start_thread(run)
        return future

    async def create_unix_connection(  # type: ignore[override]
        self, factory: Callable[[], asyncio.Protocol], path: str
    ) -> tuple[object, asyncio.Protocol]:
        return await self.net.connect(self, factory, path)

    async def create_unix_server(  # type: ignore[override]
        self, factory: Callable[[], asyncio.Protocol], path: str
    ) -> object:
        return self.net.listen(self, factory, path)

    # --- turns ------------------------------------------------------------------------------

    def _make_ready(self, handle: Handle) -> None:
        if not self.is_alive or handle.is_cancelled:
            return
        self._ready.append(handle)
        if not self._is_turn_due and not self.batch:
            self._expect_turn()

    def _expect_turn(self) -> None:
        self._is_turn_due = True
        self.world.after(1 + int(self._jitter.random() * TURN_US_MAX), self._turn)

    def _turn(self) -> None:
        """Begin a turn: what is ready now runs, what follows from it waits for the next."""
        if not self.is_alive or not self._is_turn_due:
            return
        self._is_turn_due = False
        if self.world.now_us < self.paused_until_us:
            self._is_turn_due = True
            self.world.at(self.paused_until_us, self._turn)
            return
        self.batch = len(self._ready)
        self.world.running = self
        if self.batch:
            self.run_one()

    def go_on(self) -> None:
        """End a pause."""
        self.paused_until_us = 0
        if self._is_turn_due:
            self.world.after(1, self._turn)

    def run_one(self) -> None:
        """Run the next callback of the turn."""
        self.batch -= 1
        handle = self._ready.popleft()
        if not handle.is_cancelled:
            self.run(handle.callback, *handle.args)
        if not self.batch and self._ready and self.is_alive and not self._is_turn_due:
            self._expect_turn()

    def run(self, callback: Callable[..., object], *args: Any) -> None:
        """Run something as this loop would, now."""
        if not self.is_alive:
            return
        outer = events._get_running_loop()
        events._set_running_loop(self)
        try:
            callback(*args)
        except Crashed:
            self.world.on_crash(self.name)
        except Violation as violation:
            self.world.faults.append(str(violation))
        except Exception as error:
            self.world.faults.append(f"{self.name}: a callback failed: {describe(error)}")
        finally:
            events._set_running_loop(outer)

    def broker_failed(self, error: Exception) -> None:
        """What makes a real server stop at once."""
        self.world.faults.append(f"{self.name}: the broker failed: {describe(error)}")

    def die(self) -> None:
        """Nothing of this process happens from now on."""
        self.is_alive = False
        self.batch = 0
        self.world.graveyard.append(list(self._ready))
        self._ready.clear()


def settle(future: "asyncio.Future[Any]", result: object, error: Exception | None) -> None:
    """Give a future its result or its error, unless nobody waits any more."""
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


def make_loop(world: World, net: "Net", name: str) -> SimulatedLoop:
    """A loop; asyncio's methods for real sockets and processes are left out."""
    return SimulatedLoop(world, net, name)  # type: ignore[abstract]


def describe(error: BaseException) -> str:
    """An error and where in our code it came from."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return repr(error)
    code = trace.tb_frame.f_code
    return f"{error!r} in {code.co_qualname}, line {trace.tb_lineno}"
