"""Threads that take turns: one runs at a time, and the world says which.

Owns the replacements of `threading`, `queue` and `time` in the store's modules. A simulated thread
is a real one that is suspended unless the world resumes it; it stops only where it waits, for a
condition, for a queue or for a disk, so the world determines the order of everything. A thread of a
process that has died ends where it waits.
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
"""How often a thread that joins another checks whether it has ended."""


class Fiber:
    """One thread of a process; `host` names the process."""

    def __init__(self, threads: "Threads", host: str, name: str, target: Callable[[], None]):
        self.threads = threads
        self.host = host
        self.name = name
        self.is_over = False
        self.is_killed = False
        self.wait_number = 0
        """Counts its waits, so that a late wake-up is recognised."""
        self._target = target
        self._go = _thread.allocate_lock()
        self._go.acquire()

    def begin(self) -> None:
        """Start a real thread that waits for its first turn."""
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
        """Yield the turn; called by the thread itself."""
        self.wait_number += 1
        self.threads.back.release()
        self._go.acquire()
        if self.is_killed:
            raise Crashed

    def wake(self, number: int) -> None:
        """End the wait with that number, unless it has ended."""
        if self.wait_number == number and not self.is_over and not self.is_killed:
            if self.host in self.threads.frozen:
                self.threads.frozen[self.host].append((self, number))
                return
            self.resume()
            if self.threads.has_crashed(self.host):
                self.threads.world.on_crash(self.host)


class Threads:
    """All simulated threads of a world; replaces the module `threading`."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.fibers: dict[Fiber, None] = {}
        self.current: Fiber | None = None
        self.host = ""
        """The process that is being created: new threads belong to it."""
        self.has_crashed: Callable[[str], bool] = _never
        self.frozen: dict[str, list[tuple[Fiber, int]]] = {}
        """Paused processes with all their threads, and whom to wake when they continue."""
        self.joins_take_time = False
        """Whether joining a thread lets the world run: the thread waits for others."""
        self.back = _thread.allocate_lock()
        self.back.acquire()
        self._pace = world.chance("threads")

    def sleep_us(self, delay_us: int) -> None:
        """Sleep in a thread; elsewhere no time passes."""
        fiber = self.current
        if fiber is not None:
            self.world.after(delay_us, fiber.wake, fiber.wait_number + 1)
            fiber.wait()

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        """Wait in a thread to be woken; outside of threads the world runs meanwhile."""
        fiber = self.current
        while not is_so():
            if fiber is None:
                self.world.step()
            else:
                fiber.wait()

    def freeze(self, host: str) -> None:
        """Pause a process: its threads, besides the loop."""
        self.frozen.setdefault(host, [])

    def thaw(self, host: str) -> None:
        """End the pause."""
        for fiber, number in self.frozen.pop(host, ()):
            self.world.after(1, fiber.wake, number)

    def wake_soon(self, fiber: Fiber) -> None:
        """End the current wait of a thread in a moment."""
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
    """A lock without contention: no thread stops while it holds one."""

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
    """Waits for `notify`, or until the time is up."""

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
    """Set once; a waiter sleeps its full time."""

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
    """The `Thread` class of the store's modules."""

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
        """Joining ends the thread at once: no time passes until then, unless the thread waits for
        something else."""
        threads = self._fiber.threads
        if threads.joins_take_time:
            while not self._fiber.is_over:
                if threads.current is None:
                    threads.world.step()
                else:
                    threads.sleep_us(JOIN_US)
            return
        while not self._fiber.is_over:
            self._fiber.wait_number += 1  # pending wake-ups come too late
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
