"""A database server of a simulated cluster, and the connections to it.

Owns when a statement is executed and when its answer comes: both take time, an executed statement
may never be answered, and one in transit arrives even if its sender is paused or dead. A piece of
work happens at one moment, like a transaction; one that has to wait for a lock is tried again until
its time is up. Knows no tables: lanes and leases are its content.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Generic, NamedTuple, TypeVar

import psycopg

from partibus.simulation.event_loop import settle
from partibus.simulation.threads import Fiber, Threads
from partibus.simulation.world import Violation, World

WIRE_US_MIN = 40
WIRE_US_MAX = 400
"""How long a statement or an answer is in transit."""
COMMIT_US = 300
STATEMENT_US = 10_000_000
"""A statement that could not be executed by then is aborted by the database."""
ANSWER_US = 12_000_000
"""Without an answer by then the connection is considered lost."""
CONNECT_US = 2_000_000
FORGOTTEN_US = 10_000_000
"""How long after a process fell silent the database ends its statements."""
LOCK_POLL_US = 5_000
T = TypeVar("T")


class LockWait(Exception):
    """A lock is held by another connection."""


class Server:
    """One database server."""

    def __init__(self, world: World, threads: Threads, name: str) -> None:
        self.world = world
        self.threads = threads
        self.name = name
        self.connections: dict[DatabaseConnection, None] = {}
        self.down_until_us = 0
        self.stalled_until_us = 0
        """It accepts statements and executes none."""
        self.is_full = False
        self.cut_off: dict[str, int] = {}
        """Processes that cannot reach it, and until when."""
        self.lost_answers = 0
        """How many of the next changing statements are executed and not answered."""
        self.commit_us = COMMIT_US
        self.clock_offset_ms = 0
        self._pids = 0
        self._chance: Random = world.chance(name)

    def now_ms(self) -> int:
        """The clock of the machine that it runs on."""
        return self.world.now_us // 1000 + self.clock_offset_ms

    def delay_us(self) -> int:
        """How long something is in transit."""
        return WIRE_US_MIN + int(self._chance.random() * WIRE_US_MAX)

    def service_us(self) -> int:
        """How long a statement takes."""
        return int(self.commit_us * (0.5 + self._chance.random()))

    def is_cut_off(self, host: str) -> bool:
        """Whether nothing from a process arrives here."""
        return self.cut_off.get(host, 0) > self.world.now_us

    @property
    def is_down(self) -> bool:
        """Whether it is down."""
        return self.down_until_us > self.world.now_us

    def connect(self, host: str, purpose: str) -> "DatabaseConnection":
        """A connection for a thread, which waits for it."""
        self.threads.sleep_us(CONNECT_US if self.is_cut_off(host) else self.delay_us())
        return self.accept(host, purpose)

    def accept(
        self, host: str, purpose: str, kind: "type[DatabaseConnection] | None" = None
    ) -> "DatabaseConnection":
        """Accept a connection that has waited long enough."""
        if self.is_cut_off(host) or self.is_down:
            raise psycopg.OperationalError(f"{self.name} does not take connections")
        self._pids += 1
        connection = (kind or DatabaseConnection)(self, host, purpose, self._pids)
        self.connections[connection] = None
        return connection

    # --- what goes wrong ----------------------------------------------------------------------

    def go_down(self, length_us: int) -> None:
        """Lose every connection with its pending statements; nothing that was executed."""
        self.down_until_us = self.world.now_us + length_us
        for connection in list(self.connections):
            connection.break_off()

    def cut(self, host: str, length_us: int) -> None:
        """Cut a process off, in both directions."""
        self.cut_off[host] = self.world.now_us + length_us
        for connection in list(self.connections):
            if connection.host == host:
                connection.fall_silent()

    def hold(self, host: str, until_us: int) -> None:
        """Delay what a process has sent: it is in the memory of its machine, which is paused."""
        for connection in self.connections:
            if connection.host == host:
                connection.held_until_us = until_us

    def process_died(self, host: str, is_silent: bool) -> None:
        """Its connections end; with `is_silent` the database notices that much later."""
        for connection in list(self.connections):
            if connection.host == host:
                connection.was_left(is_silent)

    def heal(self) -> None:
        """End all faults."""
        self.down_until_us = self.stalled_until_us = self.lost_answers = 0
        self.is_full = False
        self.cut_off.clear()
        self.commit_us = min(self.commit_us, COMMIT_US)
        for connection in list(self.connections):
            connection.hasten()


@dataclass(eq=False, slots=True)
class Request(Generic[T]):
    """A pending statement."""

    work: Callable[[], T]
    sent_us: int
    changes: bool
    lock_until_us: int = 0
    is_answered: bool = False
    result: Any = None
    error: Exception | None = None
    waiting: "Fiber | asyncio.Future[T] | None" = None
    """Who is notified of the answer."""

    def answer(self, result: object, error: Exception | None) -> None:
        """The answer has arrived, or never will."""
        if self.is_answered:
            return
        self.is_answered = True
        self.result, self.error = result, error
        waiting, self.waiting = self.waiting, None
        if isinstance(waiting, Fiber):
            waiting.threads.wake_soon(waiting)
        elif waiting is not None:
            waiting.get_loop().call_soon(settle, waiting, result, error)

    def take(self) -> T:
        """The answer, or its error."""
        if self.error is not None:
            raise self.error
        answer: T = self.result
        return answer


class Info(NamedTuple):
    """The driver's information about a connection."""

    backend_pid: int


class DatabaseConnection:
    """A connection of one process; its statements are executed one after the other."""

    def __init__(self, server: Server, host: str, purpose: str, pid: int) -> None:
        self.server = server
        self.host = host
        self.purpose = purpose
        self.info = Info(pid)
        self.closed = False
        """As its owner sees it."""
        self.is_over = False
        """As the database sees it: nothing more is executed."""
        self.is_silent = False
        self.prepared: dict[bytes, bytes] = {}
        """Statements by their names."""
        self.held_until_us = 0
        """What was sent arrives no earlier than this."""
        self.at_end: list[Callable[[], None]] = []
        """What the database does when the connection ends: it releases locks."""
        self._arrives_us = 0
        self._answers_us = 0
        self._sent: deque[Request[Any]] = deque()
        """Not answered yet."""
        self._arriving: deque[Request[Any]] = deque()

    # --- the near end -------------------------------------------------------------------------

    def send(self, work: Callable[[], T], *, changes: bool = False) -> Request[T]:
        """Execute something, without waiting for it."""
        world = self.server.world
        if self.closed:
            raise psycopg.OperationalError("the connection is closed")
        request = Request(work, world.now_us, changes)
        self._sent.append(request)
        if self.is_over and not self.is_silent:
            world.after(self.server.delay_us(), self._lost)
        elif not self.is_silent:
            self._arrives_us = max(self._arrives_us + 1, world.now_us + self.server.delay_us())
            self._arriving.append(request)
            world.at(self._arrives_us, self._arrive)
        world.after(ANSWER_US, self._give_up, request)
        return request

    def call(
        self, work: Callable[[], T], *, changes: bool = False, lock_us: int = STATEMENT_US
    ) -> T:
        """Execute something, and wait for the answer in a thread."""
        request = self.send(work, changes=changes)
        request.lock_until_us = self.server.world.now_us + lock_us
        self.wait(request)
        return request.take()

    def wait(self, request: "Request[Any]", is_woken: Callable[[], bool] | None = None) -> bool:
        """Whether the answer is there; False when something else ended the wait."""
        threads = self.server.threads
        request.waiting = threads.current
        threads.wait_until(lambda: request.is_answered or (is_woken is not None and is_woken()))
        request.waiting = None
        return request.is_answered

    def close(self) -> None:
        """Its owner closes it."""
        if not self.closed:
            self.closed = True
            self._lost()
            if not self.is_over and not self.is_silent:
                self.server.world.after(self.server.delay_us(), self._end)

    def _give_up(self, request: Request[Any]) -> None:
        if not request.is_answered:
            self._lost()

    def _lost(self) -> None:
        """The near end learns that there will be no more answers."""
        self.closed = True
        while self._sent:
            self._sent.popleft().answer(None, psycopg.OperationalError("the connection is lost"))

    # --- the far end --------------------------------------------------------------------------

    def hasten(self) -> None:
        """Delayed statements arrive now."""
        self.held_until_us = 0
        for _ in self._arriving:
            self.server.world.after(self.server.delay_us(), self._arrive)

    def _arrive(self) -> None:
        server = self.server
        if self.is_over or self.is_silent or not self._arriving:
            return
        late_us = max(server.stalled_until_us, self.held_until_us)
        if late_us > server.world.now_us:
            server.world.at(late_us, self._arrive)
            return
        self._carry_out(self._arriving.popleft())

    def _carry_out(self, request: Request[Any]) -> None:
        if self.is_over:
            return
        server, result = self.server, None
        error: Exception | None = None
        now_us = server.world.now_us
        try:
            if now_us - request.sent_us > STATEMENT_US:
                raise psycopg.errors.QueryCanceled("the statement has waited for too long")
            result = request.work()
        except LockWait:
            if now_us < request.lock_until_us:
                server.world.after(LOCK_POLL_US, self._carry_out, request)
                return
            error = psycopg.errors.LockNotAvailable("the lock is held by somebody else")
        except Violation:
            raise
        except Exception as raised:
            error = raised
        if request.changes and error is None and server.lost_answers:
            server.lost_answers -= 1
            server.world.note(server.name, f"does not answer {self.purpose} of {self.host}")
            self.break_off()
            return
        delay_us = server.service_us() + server.delay_us()
        self._answers_us = max(self._answers_us + 1, now_us + delay_us)
        server.world.at(self._answers_us, self._reach, request, result, error)

    def _reach(self, request: Request[Any], result: object, error: Exception | None) -> None:
        """The answer arrives, unless the connection has broken."""
        if self.is_silent or self.closed or not self._sent or self._sent[0] is not request:
            return
        self._sent.popleft()
        request.answer(result, error)

    # --- the end ------------------------------------------------------------------------------

    def break_off(self) -> None:
        """Lose pending statements; the near end learns of it in a moment."""
        self._end()
        self.server.world.after(self.server.delay_us(), self._lost)

    def fall_silent(self) -> None:
        """Nothing gets through in either direction; the database notices that later."""
        self.is_silent = True
        self._arriving.clear()
        self.server.world.after(FORGOTTEN_US, self._end)

    def was_left(self, is_silent: bool) -> None:
        """Its process is dead; what is in transit still arrives."""
        self.closed = True
        self._sent.clear()
        delay_us = FORGOTTEN_US if is_silent else self.server.delay_us()
        self.server.world.at(max(self._arrives_us, self.server.world.now_us) + delay_us, self._end)

    def _end(self) -> None:
        """The database has closed it."""
        if not self.is_over:
            self.is_over = True
            self.server.connections.pop(self, None)
            for release in self.at_end:
                release()
            self.at_end.clear()
