"""Threads that take turns: one runs at a time, and the world says which.

Owns what the store's modules know as `threading`, `queue` and `time`. A simulated thread is a real
one that holds still unless the world lets it go on; it stops only where it waits, for a condition,
for a queue or for a disk, so the order of everything is the world's. A thread of a process that
has died is ended where it waits.
"""

import _thread
from asyncio import events
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from partibus.simulation.event_loop import SimulatedLoop
from partibus.simulation.world import Crashed, World

T = TypeVar("T")
WAKE_US_MAX = 60
"""How long it takes to wake a thread."""
JOIN_US = 5_000
"""How often a thread that joins another looks whether it has ended."""


class Fiber:
    """One thread of a process; `host` names the process."""

    def __init__(self, threads: "Threads", host: str, name: str, target: Callable[[], None]):
        self.threads = threads
        self.host = host
        self.name = name
        self.is_over = False
        self.is_killed = False
        self.wait_number = 0
        """Counts its waits, so that a late wake-up is known for what it is."""
        self._target = target
        self._go = _thread.allocate_lock()
        self._go.acquire()

    def begin(self) -> None:
        """Have a real thread wait for its first turn."""
        _thread.start_new_thread(self._main, ())

    def _main(self) -> None:
        self._go.acquire()
        try:
            if not self.is_killed:
                self._target()
        except Crashed:
            pass
        except BaseException as error:
            self.threads.world.faults.append(f"{self.host}: thread {self.name}: {error!r}")
        self.is_over = True
        self.threads.back.release()

    def resume(self) -> None:
        """Let it run until it waits again."""
        if self.is_over:
            return
        threads = self.threads
        outer, threads.current = threads.current, self
        self._go.release()
        threads.back.acquire()
        threads.current = outer
        self._leave_when_over()

    def _leave_when_over(self) -> None:
        if self.is_over:
            self.threads.fibers.pop(self, None)

    def wait(self) -> None:
        """Give the turn back; called by the thread itself."""
        self.wait_number += 1
        self.threads.back.release()
        self._go.acquire()
        if self.is_killed:
            raise Crashed

    def wake(self, number: int) -> None:
        """End the wait of that number, unless it has ended."""
        if self.wait_number == number and not self.is_over and not self.is_killed:
            if self.host in self.threads.frozen:
                self.threads.frozen[self.host].append((self, number))
                return
            self.resume()
            if self.threads.has_crashed(self.host):
                self.threads.world.on_crash(self.host)


class Threads:
    """All simulated threads of a world; stands in for the module `threading`."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.fibers: dict[Fiber, None] = {}
        self.current: Fiber | None = None
        self.host = ""
        """The process that is being made: threads that begin now are its."""
        self.has_crashed: Callable[[str], bool] = _never
        self.frozen: dict[str, list[tuple[Fiber, int]]] = {}
        """Processes that stand still with all their threads, and whom to wake when they go on."""
        self.joins_take_time = False
        """Whether who joins a thread lets the world go on: the thread waits for others."""
        self.back = _thread.allocate_lock()
        self.back.acquire()
        self._pace = world.chance("threads")

    def sleep_us(self, delay_us: int) -> None:
        """Wait in a thread; anywhere else time does not pass."""
        fiber = self.current
        if fiber is not None:
            self.world.after(delay_us, fiber.wake, fiber.wait_number + 1)
            fiber.wait()

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        """Wait in a thread that somebody wakes; outside of threads the world goes on meanwhile."""
        fiber = self.current
        while not is_so():
            if fiber is None:
                self.world.step()
            else:
                fiber.wait()

    def freeze(self, host: str) -> None:
        """Have a process stand still: its threads, beside the loop."""
        self.frozen.setdefault(host, [])

    def thaw(self, host: str) -> None:
        """It goes on."""
        for fiber, number in self.frozen.pop(host, ()):
            self.world.after(1, fiber.wake, number)

    def wake_soon(self, fiber: Fiber) -> None:
        """End the present wait of a thread in a moment."""
        delay_us = 1 + int(self._pace.random() * WAKE_US_MAX)
        self.world.after(delay_us, fiber.wake, fiber.wait_number)

    def kill(self, host: str) -> None:
        """End all threads of a process where they wait."""
        self.frozen.pop(host, None)
        for fiber in [f for f in self.fibers if f.host == host]:
            fiber.is_killed = True
            fiber.resume()

    def kill_all(self) -> None:
        """End every thread."""
        for host in {fiber.host: None for fiber in self.fibers}:
            self.kill(host)

    # --- the module `threading` ---------------------------------------------------------------

    def Lock(self) -> "SimulatedLock":  # noqa: N802 - the name that is stood in for
        return SimulatedLock()

    def Condition(self, lock: "SimulatedLock") -> "Condition":  # noqa: N802
        return Condition(self, lock)

    def Event(self) -> "SimulatedEvent":  # noqa: N802
        return SimulatedEvent(self)

    def Thread(self, *, target: Callable[[], None], name: str, daemon: bool) -> "Thread":  # noqa: N802
        return Thread(Fiber(self, self.where(), name, target))

    def where(self) -> str:
        """The process whose code runs now."""
        if self.current is not None:
            return self.current.host
        loop = events._get_running_loop()
        return loop.name if isinstance(loop, SimulatedLoop) else self.host

    def SimpleQueue(self) -> "SimpleQueue[Any]":  # noqa: N802
        return SimpleQueue(self)

    # --- the module `time` --------------------------------------------------------------------

    def monotonic(self) -> float:
        return self.world.now_us / 1_000_000


class SimulatedLock:
    """A lock that nobody waits for: no thread stops while it holds one."""

    def __init__(self) -> None:
        self._is_held = False

    def acquire(self) -> bool:
        assert not self._is_held, "a simulated thread stopped while it held a lock"
        self._is_held = True
        return True

    def release(self) -> None:
        self._is_held = False

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class Condition:
    """Waits for `notify`, or until the time is over."""

    def __init__(self, threads: Threads, lock: SimulatedLock) -> None:
        self._threads = threads
        self._lock = lock
        self._waiting: Fiber | None = None

    def __enter__(self) -> bool:
        return self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def wait(self, timeout: float) -> None:
        fiber = self._threads.current
        assert fiber is not None and self._waiting is None
        self._waiting = fiber
        self._lock.release()
        try:
            self._threads.sleep_us(round(timeout * 1_000_000))
        finally:
            self._waiting = None
            self._lock.acquire()

    def notify(self) -> None:
        if self._waiting is not None:
            self._threads.wake_soon(self._waiting)


class SimulatedEvent:
    """Set once; whoever waits sleeps its time out."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._is_set = False

    def set(self) -> None:
        self._is_set = True

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, timeout: float) -> bool:
        if not self._is_set:
            self._threads.sleep_us(round(timeout * 1_000_000))
        return self._is_set


class Thread:
    """What the store knows as a thread."""

    def __init__(self, fiber: Fiber) -> None:
        self._fiber = fiber

    def start(self) -> None:
        fiber = self._fiber
        fiber.threads.fibers[fiber] = None
        fiber.begin()
        fiber.threads.wake_soon(fiber)

    def is_alive(self) -> bool:
        return self._fiber in self._fiber.threads.fibers

    def join(self) -> None:
        """Whoever joins wants the end at once: no time passes until it is there, unless the thread
        waits for somebody else."""
        threads = self._fiber.threads
        if threads.joins_take_time:
            while not self._fiber.is_over:
                if threads.current is None:
                    threads.world.step()
                else:
                    threads.sleep_us(JOIN_US)
            return
        while not self._fiber.is_over:
            self._fiber.wait_number += 1  # wake-ups on their way come too late
            self._fiber.resume()


class SimpleQueue(Generic[T]):
    """A queue between a loop and a thread."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._items: deque[T] = deque()
        self._waiting: Fiber | None = None

    def put(self, item: T) -> None:
        self._items.append(item)
        if self._waiting is not None:
            self._threads.wake_soon(self._waiting)

    def get(self) -> T:
        fiber = self._threads.current
        assert fiber is not None
        while not self._items:
            self._waiting = fiber
            fiber.wait()
            self._waiting = None
        return self._items.popleft()


def _never(host: str) -> bool:
    return False
