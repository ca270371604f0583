"""Bodies from a lane: those of recent entries from memory, the others in one statement for many.

Owns the reader thread with its connection. Neighbouring bodies are read together, and each is
checked against the CRC-32C before it, as in files. Planning needs the segment table and happens on
the loop thread.
"""

from collections.abc import Callable
from functools import partial
from itertools import groupby
from operator import itemgetter

import psycopg

from partibus.domain.errors import BusError, StoreCorrupt, StoreUnavailable
from partibus.store.callbacks import call_back_read
from partibus.store.interface import Notify, ReadDone, Ref
from partibus.store.lane.recent import RecentEntries
from partibus.store.postgres.lane import Lane
from partibus.store.postgres.lane_connection import LaneConnection
from partibus.store.reading import Run, plan_runs, run_within, take_bodies
from partibus.store.table import SegmentTable
from partibus.store.worker import Worker

SegmentKey = tuple[int, int]
"""Base and revision of a segment."""


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
        """Used by the thread."""

    def read_now(self, refs: list[Ref]) -> list[bytes] | None:
        """The bodies when all of them are in memory."""
        bodies: list[bytes] = []
        first = 0
        while first < len(refs):
            position = refs[first][0]
            entry = self._recent.entry_at(position)
            last = first if entry is None else run_within(refs, first, entry[0], _end(entry))
            if entry is None or last == first:
                self._table.segment_at(position)  # StoreCorrupt when nothing can be there
                return None
            self._take(entry[1], entry[0], refs, first, last, bodies)
            first = last
        return bodies

    def read(self, refs: list[Ref], done: ReadDone) -> None:
        """The bodies from memory or from the database."""
        try:
            bodies = self.read_now(refs)
            runs = plan_runs(self._table, refs) if bodies is None else []
        except StoreCorrupt as error:
            self._notify(partial(call_back_read, done, error))
            return
        for position, _ in refs:
            self._table.hold(position)
        if bodies is not None:
            self._notify(partial(self._finish, refs, bodies, done))
            return
        keys = [self._key(refs[run.first][0]) for run in runs]
        if not self._worker.submit(partial(self._fetch, refs, runs, keys, done)):
            closed = StoreUnavailable(f"The {self._lane.name} is closed.")
            self._notify(partial(self._finish, refs, closed, done))

    def _key(self, position: int) -> SegmentKey:
        segment = self._table.segment_at(position)
        return segment.base, segment.revision

    def forget(self, then: Callable[[], None]) -> None:
        """Run `then`, on any thread, when all earlier requests have been read."""
        if not self._worker.started or not self._worker.submit(then):
            then()

    def close(self) -> None:
        """Answer pending requests, then end the thread."""
        self._worker.submit(self._connection.drop)
        self._worker.close()

    def _fetch(
        self, refs: list[Ref], runs: list[Run], keys: list[SegmentKey], done: ReadDone
    ) -> None:
        """On the thread."""
        answer: list[bytes] | BusError
        try:
            answer = self._bodies(refs, runs, keys)
        except StoreCorrupt as error:
            answer = error
        except (psycopg.Error, BusError) as error:
            self._connection.drop()
            answer = StoreUnavailable(f"The {self._lane.name} cannot be read: {error}. Try again.")
        self._notify(partial(self._finish, refs, answer, done))

    def _bodies(self, refs: list[Ref], runs: list[Run], keys: list[SegmentKey]) -> list[bytes]:
        """One statement for neighbouring runs of one segment."""
        bodies: list[bytes] = []
        pairs = zip(keys, runs, strict=True)
        for key, some in groupby(pairs, itemgetter(0)):
            stretch = [run for _, run in some]
            places = [(run.start, run.end) for run in stretch]
            found = self._lane.read(self._connection.get(), key, places)
            for run, data in zip(stretch, found, strict=True):
                self._take(data, run.start, refs, run.first, run.last, bodies)
        return bodies

    def _finish(self, refs: list[Ref], answer: list[bytes] | BusError, done: ReadDone) -> None:
        for position, _ in refs:
            self._table.let_go(position)
        call_back_read(done, answer)

    def _take(
        self, data: bytes, start: int, refs: list[Ref], first: int, last: int, bodies: list[bytes]
    ) -> None:
        """Take the bodies out, checking each checksum."""
        is_whole = sum(refs[last - 1]) <= start + len(data)
        bad = take_bodies(data, start, refs, first, last, bodies) if is_whole else last - 1
        if bad >= 0:
            raise StoreCorrupt(
                f"The {self._lane.name}: position {refs[bad][0]:#x}: a message is missing or fails "
                "its checksum. Restore the database from a backup.",
                self._lane.name,
            )


def _end(entry: tuple[int, bytes]) -> int:
    return entry[0] + len(entry[1])
