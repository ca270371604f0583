"""Entries become durable in the rows of a lane: the engine of the store in a database.

Owns the connection that appends, the durable position, the fence entry with which a writer begins,
and how the lane is taken back after a failure: with a new epoch, so that no refused entry can
appear later. Blocks; belongs to the commit thread, which groups the entries and probes. Made by the
store.
"""

import struct
import time
from collections import deque
from typing import Final

import psycopg

from partibus.store.interface import StoreTimings
from partibus.store.lane.commit import CommitThread, Fenced, PendingEntry, SharedCommitFailed
from partibus.store.postgres.connection import Connection, close_quietly, is_answer
from partibus.store.postgres.lane import Lane
from partibus.store.postgres.pipeline import StatementPipeline, Wakeup
from partibus.store.postgres.sharing import SharedAppends, SharedRow
from partibus.store.record import ENTRY_HEADER_BYTES, pack_header

ROW_BYTES_MAX: Final = 4 << 20
"""Pending entries beyond this go into the next row; a single entry may be larger."""
IN_FLIGHT_MAX: Final = 8
PIPELINE_BYTES: Final = 256 << 10
"""Pending entries are sent while others are in flight when there are at least this many bytes; less
waits a little longer, since a commit costs the database as much as 250 messages do."""
IDLE_PING_S: Final = 1.0
_I64: Final = struct.Struct(">q")


class LaneWriter:
    """Appends groups of entries, each as one row, several at a time.

    A failed row does not move the lane's tail, so the rows after it change nothing.
    """

    in_flight_max: Final = IN_FLIGHT_MAX
    idle_s: Final = IDLE_PING_S

    def __init__(
        self,
        lane: Lane,
        connection: Connection,
        seed: int,
        base: int,
        tail: int,
        timings: StoreTimings,
        shared: SharedAppends | None = None,
    ) -> None:
        self.name = lane.name
        self.durable = tail
        self._lane = lane
        self._seed = seed
        self._connection: Connection | None = connection
        self._backend = connection.info.backend_pid
        self._pipeline = StatementPipeline(connection)
        self._wakeup = Wakeup()
        self._statement = b""
        self._sent_s: deque[float] = deque()
        """When each unanswered row was sent: its outcome is unknown."""
        self._timings = timings
        self._shared = shared
        """None when this lane has no others beside it."""
        self._shared_statement = b""
        if shared is not None:
            shared.join(self)
        self._is_full = False
        """Whether the database had no space at the last attempt."""
        self._base = base
        """The segment of the last durable entry."""
        self._made = -1
        """The segment whose table is known to exist."""

    def fitting(self, waiting: list[PendingEntry], in_flight: int) -> int:
        """Those of one segment, as far as they fit into one row."""
        first = waiting[0]
        is_little = waiting[-1].end - first.position < PIPELINE_BYTES
        if in_flight and (is_little or first.base != self._made):
            return 0
        for index, entry in enumerate(waiting):
            if index and (entry.base != first.base or entry.end - first.position > ROW_BYTES_MAX):
                return index
        return len(waiting)

    def rest(self) -> None:
        """An idle lane notices by itself that its database is gone, or has another writer."""
        self._pipeline.rest()
        self._lane.check_epoch(self._connected())

    def begin(self, group: list[PendingEntry]) -> None:
        """Send the group as one row."""
        if self._lane.faults is not None:
            self._lane.faults.before_commit()
        if group[0].base != self._made:
            self._make(group[0].base)
        self._sent_s.append(time.monotonic())
        self._pipeline.send(self._statement, *_parameters(group))

    def finish(self, group: list[PendingEntry]) -> bool:
        """Wait for the answer to the oldest row, or until there is another row to send."""
        try:
            changed = self._pipeline.receive(self._wakeup)
        except psycopg.errors.DiskFull:
            self._is_full = True
            raise
        if changed is None:
            return False
        if changed != 1:
            raise self._lane.fenced()
        self._is_durable(group)
        return True

    def _is_durable(self, group: list[PendingEntry]) -> None:
        self._base = group[0].base
        self.durable = group[-1].end
        self._timings.sync.observe(time.monotonic() - self._sent_s.popleft())

    # --- with the rows of other lanes ---------------------------------------------------------

    def takes(self, waiting: list[PendingEntry], lender: CommitThread) -> bool:
        """Whether what waits goes into the next transaction that several lanes share."""
        first = waiting[0]
        is_little = waiting[-1].end - first.position < PIPELINE_BYTES
        if self._shared is None or self._lane.faults is not None:
            return False
        if not is_little or first.base != self._made:
            return False
        self._shared.call(lender, self)
        return True

    def row(self, group: list[PendingEntry]) -> SharedRow:
        """The group, as it is sent with others."""
        self._sent_s.append(time.monotonic())
        return SharedRow(self._lane.number, self._shared_statement, _parameters(group))

    def answered(self, group: list[PendingEntry], changed: int | None) -> Exception | None:
        """How many rows it has changed, None when it was undone; returns what was wrong."""
        if changed == 1:
            self._is_durable(group)
            return None
        self._sent_s.popleft()
        return SharedCommitFailed() if changed is None else self._lane.fenced()

    # --- the thread again ---------------------------------------------------------------------

    def interrupt(self) -> None:
        """Called on another thread, to fill the pipeline."""
        self._wakeup.set()

    def _make(self, base: int) -> None:
        """A table for a segment, and the statement that appends to it; nothing is in flight."""
        self._pipeline.rest()
        connection = self._connected()
        try:
            self._lane.add_segment(connection, base)
        except psycopg.errors.DiskFull:
            self._is_full = True
            raise
        self._statement = self._lane.prepare_append(connection, base)
        if self._shared is not None:
            self._shared_statement = self._lane.append_query(connection, base)
        self._made = base

    def withdraw(self) -> None:
        """The row may or may not be there: the lane is taken back before anything else is
        appended."""

    def is_refused(self, error: Exception) -> bool:
        """Whether it was never sent, or the database has refused it. A lost connection says
        nothing: the row may be there, and the next writer of the lane, here or on another node,
        finds it."""
        return not self._sent_s or isinstance(error, Fenced) or is_answer(error)

    def restore(self) -> tuple[int, int]:
        """Take the lane back with a new epoch, which deletes what was refused; if nothing was in
        flight there is nothing to delete, and a lane under a lease keeps its epoch."""
        self._disconnect()
        self._connection = self._lane.connect("append")
        if self._is_full:
            # A fence entry may fit where no message does: the lane would keep going up and down.
            self._lane.prove_room(self._connection)
            self._is_full = False
        is_certain = not self._sent_s
        self._lane.take_back(self._connection, self.durable, self._backend, is_certain)
        self._backend = self._connection.info.backend_pid
        self._pipeline = StatementPipeline(self._connection)
        self._sent_s.clear()
        self.fence()
        return self._base, self.durable

    def fence(self) -> None:
        """Begin to write with an empty entry: it marks in the log where a writer took over, and
        proves that the database accepts entries."""
        end = self.durable + ENTRY_HEADER_BYTES
        entry = pack_header(self._seed, self.durable, 0, 0, 0, 0)
        self._make(self._base)
        self._sent_s.append(time.monotonic())
        self._pipeline.send(self._statement, _I64.pack(end), _I64.pack(self.durable), entry)
        if self._pipeline.receive() != 1:
            raise self._lane.fenced()
        self._sent_s.popleft()
        self.durable = end

    def close(self) -> None:
        """Release the lane."""
        self._disconnect()
        self._wakeup.close()
        if self._shared is not None:
            self._shared.leave(self)

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        close_quietly(connection)

    def _connected(self) -> Connection:
        assert self._connection is not None, "the lane is used before it was taken back"
        return self._connection


def _parameters(group: list[PendingEntry]) -> tuple[bytes, bytes, bytes]:
    """Of the statement that appends: the end, the position, the bytes."""
    first = group[0]
    data = first.data if len(group) == 1 else b"".join([entry.data for entry in group])
    return _I64.pack(group[-1].end), _I64.pack(first.position), data
