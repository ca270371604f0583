"""Which connection is read next, and how much is handled in one turn of the loop.

Owns whether the socket of a connection is read, what was read and is not handled yet, and the line
of connections that wait for either. A turn of the loop handles a bounded amount of work for all
clients together; the rest waits for the next turn, so that a hundred clients that send as fast as
they can, or all connect at once, leave time for everything else: other clients, answers of the
store, health requests. Work is counted, not timed, so that a slow machine does the same in a turn
as a fast one. One line for each gateway, one intake for each connection.
"""

import logging
from collections import deque
from typing import TYPE_CHECKING, Final

from partibus.domain.scheduler import Scheduler
from partibus.gateway.memory.account import Share

if TYPE_CHECKING:
    from partibus.gateway.connection import ClientConnection
    from partibus.gateway.wire import Wire

LARGE_READ_BYTES: Final = 64 * 1024
"""A read of this size is probably not the last: its connection gets in line."""
TURN_WORK: Final = 1024 * 1024
"""Bytes handled in a turn, including the cost of each read: about two milliseconds."""
READ_COST: Final = 16 * 1024
"""The fixed cost of a read, in bytes: 64 small reads in a turn."""
GREETING_COST: Final = 64 * 1024
"""The same for a client without a link: admitting it costs more than serving it."""
RESUMES_PER_TURN: Final = 4
"""Sockets that are read again in one turn, each with up to 256 KiB."""
PIECE_EVENTS: Final = 256
"""A read with small messages is handled in pieces of about this many messages."""
DENSE_BYTES: Final = 1024
"""Messages below this size are small: a read of 256 KiB holds more of them than a piece."""
PIECE_BYTES_MIN: Final = 16 * 1024
WHOLE: Final = 1 << 30
"""Larger than any read."""

_log: Final = logging.getLogger(__name__)


class ReadingTurns:
    """The line, and the work that may still be done in this turn."""

    __slots__ = ("_is_due", "_left", "_line", "_scheduler")

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._line: deque[Intake] = deque()
        self._left = TURN_WORK
        self._is_due = False

    def spend(self, work: int) -> bool:
        """Whether this much work may begin now; work that begins within the bound may exceed it.

        The bound is renewed in the turn after it was reached, not in every turn: that costs nothing
        while it is not reached, and a turn does at most one bound either way.
        """
        if self._left <= 0:
            return False
        self._left -= work
        if self._left <= 0:
            self._come_again()
        return True

    def enter(self, intake: "Intake") -> None:
        """Get in line; each connection once."""
        self._line.append(intake)
        self._come_again()

    def _come_again(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._scheduler.call_soon(self._turn)

    def _turn(self) -> None:
        """A new turn of the loop: the bound is renewed, first for those in line."""
        self._is_due = False
        self._left = TURN_WORK
        resumed = 0
        for _ in range(len(self._line)):
            if self._left <= 0 or resumed == RESUMES_PER_TURN:
                break
            if self._line.popleft().take_turn():
                resumed += 1
        if self._line:
            self._come_again()


class Intake:
    """Whether one client's socket is read, and what was read and waits to be handled."""

    __slots__ = (
        "_connection",
        "_is_in_line",
        "_is_over",
        "_piece_bytes",
        "_pieces",
        "_read_cost",
        "_share",
        "_turns",
        "_wire",
        "is_reading",
        "waiting_bytes",
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
        self._read_cost = GREETING_COST
        self._piece_bytes = WHOLE
        self._pieces: deque[bytes] = deque()
        self.waiting_bytes = 0
        """What was read and is not handled yet."""

    def admitted(self) -> None:
        """The client has a link: serving it costs less than admitting it."""
        self._read_cost = READ_COST

    # --- what was read --------------------------------------------------------------------------

    def take(self, data: bytes) -> None:
        """Bytes were received: handle them now, or in a later turn when this one has done enough.

        A TLS transport may deliver some after its end; those are dropped.
        """
        if self._is_over:
            return
        if (
            not self._pieces
            and len(data) <= self._piece_bytes
            and self._turns.spend(self._read_cost + len(data))
        ):
            self._connection.handle(data)
        else:
            self._put_off(data)

    def _put_off(self, data: bytes) -> None:
        self._pieces.append(data)
        self.waiting_bytes += len(data)
        if self.is_reading and self.waiting_bytes >= LARGE_READ_BYTES:
            self._pause()
        self._connection.count_memory()
        self._stand_in_line()

    def _go_on(self) -> None:
        """Handle some of what waits; on an exception the client is cut off, as the loop would
        do."""
        try:
            self._handle_next()
        except Exception:
            _log.exception("the input of a client could not be processed")
            self._wire.abort()
            return
        if self._pieces and not self._is_over:
            self._stand_in_line()

    def _handle_next(self) -> None:
        """Handle a piece of what waits; the rest stays first in line."""
        piece = self._pieces.popleft()
        if len(piece) > self._piece_bytes:
            self._pieces.appendleft(piece[self._piece_bytes :])
            piece = piece[: self._piece_bytes]
        self.waiting_bytes -= len(piece)
        self._turns.spend(self._read_cost + len(piece))
        self._connection.handle(piece)

    def was_handled(self, byte_count: int, event_count: int) -> None:
        """Count handled bytes and events, and decide whether to continue."""
        if event_count * DENSE_BYTES <= byte_count:
            self._piece_bytes = WHOLE
        elif 2 * event_count > PIECE_EVENTS:
            size = byte_count * PIECE_EVENTS // event_count
            self._piece_bytes = max(PIECE_BYTES_MIN, size)
        if self.is_reading and (byte_count >= LARGE_READ_BYTES or self._must_stop()):
            self._pause()

    # --- whether it is read ---------------------------------------------------------------------

    def _pause(self) -> None:
        self.is_reading = False
        self._wire.pause_reading()

    def _must_stop(self) -> bool:
        return self._connection.is_behind() or self._share.must_wait

    def _stand_in_line(self) -> None:
        if not self._is_in_line:
            self._is_in_line = True
            self._turns.enter(self)

    def read_on(self) -> None:
        """Get in line to be read again, when the client has caught up."""
        if self._is_in_line or not self._connection.has_caught_up():
            return
        if self._share.must_wait:
            self._share.account.wait(self)
        else:
            self._stand_in_line()

    def take_turn(self) -> bool:
        """Its turn has come; returns whether its socket is read again."""
        self._is_in_line = False
        if self._is_over:
            return False
        if self._pieces:
            self._go_on()
            return False
        if self.is_reading:
            return False
        if self._must_stop():
            self.read_on()
            return False
        self.is_reading = True
        self._wire.resume_reading()
        return True

    def has_room(self) -> None:
        """Memory was short, and there is room again."""
        if not self.is_reading and not self._is_over:
            self.read_on()

    # --- its end --------------------------------------------------------------------------------

    def finish(self) -> None:
        """The socket is gone: handle what was read before."""
        while self._pieces and not self._is_over:
            self._handle_next()

    def close(self) -> None:
        """The connection has ended."""
        self._is_over = True
        self._pieces.clear()
        self.waiting_bytes = 0
        self._share.account.forget(self)
