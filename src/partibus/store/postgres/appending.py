"""Entries become durable in the rows of a lane: the engine of the store in a database.

Owns the connection that appends, the durable position, the fence entry with which a writer begins,
and how the lane is taken back after a failure: with a new epoch, so that nothing of what was
refused can appear later. Blocks; belongs to the commit thread, which groups the entries and probes.
Made by the store.
"""

import contextlib
import time
from typing import Final

import psycopg

from partibus.store.interface import StoreTimings
from partibus.store.lane.commit import Fenced, PendingEntry
from partibus.store.postgres.lane import Connection, Lane
from partibus.store.record import ENTRY_HEADER_BYTES, pack_header

ROW_BYTES_MAX: Final = 4 << 20
"""What waits beyond this goes into the next row; one entry alone may be larger."""
IDLE_PING_S: Final = 1.0


class LaneWriter:
    """Appends groups of entries, each as one row."""

    in_flight_max: Final = 1
    idle_s: Final = IDLE_PING_S

    def __init__(
        self,
        lane: Lane,
        connection: Connection,
        seed: int,
        base: int,
        tail: int,
        timings: StoreTimings,
    ) -> None:
        self.name = lane.name
        self.durable = tail
        self._lane = lane
        self._seed = seed
        self._connection: Connection | None = connection
        self._backend = connection.info.backend_pid
        self._timings = timings
        self._base = base
        """The segment of the last durable entry."""
        self._made = -1
        """The segment whose table is known to be there."""

    def fitting(self, waiting: list[PendingEntry], in_flight: int) -> int:
        """Those of one segment, as far as one row takes them."""
        first = waiting[0]
        for index, entry in enumerate(waiting):
            if index and (entry.base != first.base or entry.end - first.position > ROW_BYTES_MAX):
                return index
        return len(waiting)

    def rest(self) -> None:
        """An idle lane finds out by itself that its database is gone, or has another writer."""
        self._lane.check_epoch(self._connected())

    def begin(self, group: list[PendingEntry]) -> None:
        """Append the group as one row."""
        first = group[0]
        connection = self._connected()
        if first.base != self._made:
            self._lane.add_segment(connection, first.base)
            self._made = first.base
        data = first.data if len(group) == 1 else b"".join([entry.data for entry in group])
        begun_s = time.monotonic()
        self._lane.append(connection, first.base, first.position, group[-1].end, data)
        self._timings.sync.observe(time.monotonic() - begun_s)

    def finish(self, group: list[PendingEntry]) -> None:
        """It is durable."""
        self._base = group[0].base
        self.durable = group[-1].end

    def withdraw(self) -> None:
        """The row may be there or not: the lane is taken back before anything else is appended."""

    def restore(self) -> tuple[int, int]:
        """Take the lane back with a new epoch, which deletes what was refused."""
        self.close()
        self._connection = self._lane.connect("append")
        try:
            self._lane.take_back(self._connection, self.durable, self._backend)
        except Fenced:
            self.close()  # whoever has the lane needs its lock
            raise
        self._backend = self._connection.info.backend_pid
        self._made = -1
        self.fence()
        return self._base, self.durable

    def fence(self) -> None:
        """Begin to write with an empty entry: it shows in the log where a writer took over, and
        proves that the database takes entries."""
        connection = self._connected()
        end = self.durable + ENTRY_HEADER_BYTES
        entry = pack_header(self._seed, self.durable, 0, 0, 0, 0)
        self._lane.add_segment(connection, self._base)
        self._made = self._base
        self._lane.append(connection, self._base, self.durable, end, entry)
        self.durable = end

    def close(self) -> None:
        """Let others have the lane."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(psycopg.Error):
                connection.close()

    def _connected(self) -> Connection:
        assert self._connection is not None, "the lane is used before it was taken back"
        return self._connection
