"""Bodies from a lane: those of recent entries from memory, the others in one statement for many.

Owns the reader thread with its connection, and the check of each body against the CRC-32C that
lies before it. Planning needs the segment table and happens on the loop thread.
"""

import struct
from collections.abc import Callable
from functools import partial
from typing import Final

import psycopg

from partibus.domain.errors import BusError, StoreCorrupt, StoreUnavailable
from partibus.store.callbacks import tell_read
from partibus.store.interface import Notify, ReadDone, Ref
from partibus.store.lane.recent import RecentEntries
from partibus.store.postgres.lane import Lane, LaneConnection
from partibus.store.record import BODY_CRC_BYTES, crc32c
from partibus.store.table import SegmentTable
from partibus.store.worker import Worker

_CRC: Final = struct.Struct("<I")

Plan = dict[tuple[int, int], list[tuple[int, Ref]]]
"""By base and generation of a segment: which of the bodies asked for, and where it lies with its
checksum."""


class DatabaseReaders:
    """Reads bodies that were appended."""

    def __init__(
        self, lane: Lane, table: SegmentTable, recent: RecentEntries, notify: Notify
    ) -> None:
        self._lane = lane
        self._table = table
        self._recent = recent
        self._notify = notify
        self._worker = Worker(f"lane-read-{lane.number}")
        self._connection = LaneConnection(lane, "read")
        """Of the thread."""

    def read_now(self, refs: list[Ref]) -> list[bytes] | None:
        """The bodies when all of them are in memory."""
        bodies = []
        for position, length in refs:
            found = self._recent.find(checked_ref(position, length)) if length else b""
            if found is None:
                self._table.segment_at(position)  # StoreCorrupt when nothing can be there
                return None
            bodies.append(self._checked(position, found) if length else b"")
        return bodies

    def read(self, refs: list[Ref], done: ReadDone) -> None:
        """The bodies from memory and from the database."""
        try:
            bodies, plan = self._plan(refs)
        except StoreCorrupt as error:
            self._notify(partial(tell_read, done, error))
            return
        for position, _ in refs:
            self._table.hold(position)
        if not plan:
            self._notify(partial(self._finish, refs, bodies, done))
        elif not self._worker.submit(partial(self._fetch, refs, bodies, plan, done)):
            closed = StoreUnavailable(f"The {self._lane.name} is closed.")
            self._notify(partial(self._finish, refs, closed, done))

    def forget(self, then: Callable[[], None]) -> None:
        """Run `then`, on whatever thread, when all that was asked before has been read."""
        if not self._worker.started or not self._worker.submit(then):
            then()

    def close(self) -> None:
        """Answer what was asked, then end the thread."""
        self._worker.submit(self._connection.drop)
        self._worker.close()

    def _plan(self, refs: list[Ref]) -> tuple[list[bytes], Plan]:
        """What is in memory, and where the rest lies."""
        bodies: list[bytes] = []
        plan: Plan = {}
        for index, (position, length) in enumerate(refs):
            wanted = checked_ref(position, length)
            found = self._recent.find(wanted) if length else b""
            if found is None:
                segment = self._table.segment_at(position)
                key = (segment.base, segment.generation)
                plan.setdefault(key, []).append((index, wanted))
            bodies.append(self._checked(position, found) if found else b"")
        return bodies, plan

    def _fetch(self, refs: list[Ref], bodies: list[bytes], plan: Plan, done: ReadDone) -> None:
        """On the thread."""
        answer: list[bytes] | BusError = bodies
        try:
            for segment, wanted in plan.items():
                places = [ref for _, ref in wanted]
                found = self._lane.read(self._connection.get(), segment, places)
                for (index, _), data in zip(wanted, found, strict=True):
                    bodies[index] = self._checked(refs[index][0], data, refs[index][1])
        except StoreCorrupt as error:
            answer = error
        except (psycopg.Error, BusError) as error:
            self._connection.drop()
            answer = StoreUnavailable(f"The {self._lane.name} cannot be read: {error}. Try again.")
        self._notify(partial(self._finish, refs, answer, done))

    def _finish(self, refs: list[Ref], answer: list[bytes] | BusError, done: ReadDone) -> None:
        for position, _ in refs:
            self._table.let_go(position)
        tell_read(done, answer)

    def _checked(self, position: int, data: bytes, length: int = -1) -> bytes:
        """A body whose checksum is right."""
        body = data[BODY_CRC_BYTES:]
        if (length >= 0 and len(body) != length) or data[:BODY_CRC_BYTES] != _CRC.pack(
            crc32c(body)
        ):
            raise StoreCorrupt(
                f"The {self._lane.name}: position {position:#x}: a message is missing or fails its "
                "checksum. Restore the database from a backup."
            )
        return body


def checked_ref(position: int, length: int) -> Ref:
    """A body together with the checksum that lies before it."""
    return position - BODY_CRC_BYTES, length + BODY_CRC_BYTES
