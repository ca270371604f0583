"""Who is read next: connections that bring much take turns.

Owns whether the socket of a connection is read, and the line of those that were read at length
and wait to be read again. A few of them go in each turn of the loop, so that a hundred clients
that send as fast as they can leave time between them for everybody else: other clients, the
store's news, requests for the server's health. Connections that bring little never wait here.
One line for each gateway, one intake for each connection.
"""

from collections import deque
from typing import TYPE_CHECKING, Final

from partibus.fragment.broker import Scheduler
from partibus.gateway.memory_account import Share

if TYPE_CHECKING:
    from partibus.gateway.connection import ClientConnection
    from partibus.gateway.wire import Wire

LARGE_READ_BYTES: Final = 64 * 1024
"""A read that brings this much is likely not the last: its connection goes to the line."""
READS_PER_TURN: Final = 8
"""Of at most 256 KiB each: about two milliseconds of work in a turn."""


class ReadingTurns:
    """The line."""

    __slots__ = ("_is_due", "_line", "_scheduler")

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._line: deque[Intake] = deque()
        self._is_due = False

    def enter(self, intake: "Intake") -> None:
        """Stand in line; each once."""
        self._line.append(intake)
        self._go_on()

    def _go_on(self) -> None:
        if self._line and not self._is_due:
            self._is_due = True
            self._scheduler.call_soon(self._turn)

    def _turn(self) -> None:
        self._is_due = False
        for _ in range(min(READS_PER_TURN, len(self._line))):
            self._line.popleft().take_turn()
        self._go_on()


class Intake:
    """Whether one client's socket is read."""

    __slots__ = (
        "_connection",
        "_is_in_line",
        "_is_over",
        "_share",
        "_turns",
        "_wire",
        "is_reading",
    )

    def __init__(
        self, connection: "ClientConnection", wire: "Wire", share: Share, turns: ReadingTurns
    ) -> None:
        self._connection = connection
        self._wire = wire
        self._share = share
        self._turns = turns
        self.is_reading = True
        self._is_in_line = False
        self._is_over = False

    def was_read(self, byte_count: int) -> None:
        """So much was read at once and handled; see whether to go on."""
        if self.is_reading and (byte_count >= LARGE_READ_BYTES or self._must_stop()):
            self.is_reading = False
            self._wire.pause_reading()

    def _must_stop(self) -> bool:
        return self._connection.is_behind() or self._share.must_wait

    def read_on(self) -> None:
        """Stand in line to be read again, when the client has caught up."""
        if self._is_in_line or not self._connection.has_caught_up():
            return
        if self._share.must_wait:
            self._share.account.wait(self)
        else:
            self._is_in_line = True
            self._turns.enter(self)

    def take_turn(self) -> None:
        """Its turn has come."""
        self._is_in_line = False
        if self._is_over or self.is_reading:
            return
        if self._must_stop():
            self.read_on()
        else:
            self.is_reading = True
            self._wire.resume_reading()

    def has_room(self) -> None:
        """There was no memory for what it sends, and is again."""
        if not self.is_reading and not self._is_over:
            self.read_on()

    def close(self) -> None:
        """The connection is over."""
        self._is_over = True
        self._share.account.forget(self)
