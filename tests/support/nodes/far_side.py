"""Two processes in one test: rows go from one end to the other when the test says so.

Owns a connection between a `FarBroker` and a `Host` that is turned by hand and can be cut at any
point: rows that have not left yet, rows under way, answers under way.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from partibus.cluster.hosting import Host
from partibus.cluster.remote import FarBroker
from partibus.cluster.rows import Row
from partibus.domain.scheduler import Scheduler
from partibus.fragment.handle import Fragment


def travelled(rows: list[Row]) -> list[list[Any]]:
    """Rows as they arrive in another process."""
    return msgspec.msgpack.decode(msgspec.msgpack.encode(rows), type=list[list[Any]])


class Wire:
    """One direction: posted rows wait until they are carried."""

    def __init__(self, posted: Callable[[], None] | None = None) -> None:
        self.rows: list[Row] = []
        self.is_full = False
        self._posted = posted

    def post(self, row: Row, byte_count: int) -> None:
        assert byte_count > 0
        self.rows.append(row)
        if self._posted is not None:
            self._posted()

    def take(self) -> list[list[Any]]:
        rows, self.rows = self.rows, []
        return travelled(rows)


class FarSide:
    """A far process with fragments; `far` is how this side sees it."""

    def __init__(
        self,
        scheduler: Scheduler,
        find: Callable[[int], Fragment | None],
        turn: Callable[[], None],
        *,
        is_automatic: bool = False,
    ) -> None:
        self._scheduler = scheduler
        self._is_automatic = is_automatic
        """Rows are carried by themselves, in the turn after the one that posted them."""
        self._find = find
        self._turn = turn
        self.far = FarBroker(1, scheduler)
        self.requests = Wire()
        self.answers = Wire()
        self.host: Host | None = None

    def connect(self) -> None:
        """It is there, and new."""
        if self._is_automatic:
            self.requests = Wire(lambda: self._scheduler.call_soon(self._move_requests))
            self.answers = Wire(lambda: self._scheduler.call_soon(self._move_answers))
        else:
            self.requests, self.answers = Wire(), Wire()
        self.host = Host(self.answers, self._find, lambda name, payload: payload)
        self.far.connected(self.requests)
        self._turn()

    def _move_requests(self) -> None:
        if self.far.is_connected and self.host is not None:
            self.host.receive(self.requests.take())

    def _move_answers(self) -> None:
        if self.far.is_connected:
            self.far.receive(self.answers.take())

    def cut(self) -> None:
        """The connection is gone; what has not been carried never arrives."""
        assert self.host is not None
        self.host.close()
        self.far.disconnected(self.requests.rows)
        self._turn()

    def carry_requests(self) -> None:
        """The far process gets what was asked, and does it."""
        assert self.host is not None
        self.host.receive(self.requests.take())
        self._turn()

    def carry_answers(self) -> None:
        """This side hears what was answered."""
        self.far.receive(self.answers.take())
        self._turn()

    def run(self) -> None:
        """Carry until nothing moves any more."""
        self._turn()
        while self.requests.rows or self.answers.rows:
            self.carry_requests()
            self.carry_answers()
