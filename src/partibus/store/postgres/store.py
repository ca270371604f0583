"""The store in a PostgreSQL database.

Owns the wiring of the parts that keep a lane log in a database: recovery, the writer of rows,
readers, checkpoints. Must never interpret a record. Called by the broker.
"""

import secrets
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import psycopg

from partibus.domain.errors import StoreCorrupt, StoreUnavailable
from partibus.store.compaction.compactor import Compactor
from partibus.store.fault_injection import LaneFaults
from partibus.store.files.recovery import entry_records
from partibus.store.interface import Done, Increment, Notify, Recovered, RecoveredRecord
from partibus.store.lane.commit import PROBE_INTERVAL_S, CommitThread
from partibus.store.lane.log import SLOW_COMMIT_S, LaneLog
from partibus.store.lane.recent import RECENT_BYTES, RecentEntries
from partibus.store.postgres.appending import LaneWriter
from partibus.store.postgres.compacting import LaneTables
from partibus.store.postgres.connection import Connection
from partibus.store.postgres.keeping import DatabaseKeeper
from partibus.store.postgres.lane import Lane, LaneRow
from partibus.store.postgres.lane_connection import LaneConnection
from partibus.store.postgres.reading import DatabaseReaders
from partibus.store.postgres.sharing import SharedAppends
from partibus.store.record import ENTRY_HEADER_BYTES, crc32c, unpack_header
from partibus.store.table import SegmentTable

SEGMENT_BYTES: Final = 32 << 20
"""Small enough that the current one, with those that may wait for compaction, stays within 256
MiB."""
FIRST_POSITION: Final = 64
"""Position 0 means "no body"."""
ENTRY_BYTES_MAX: Final = 512 << 20
"""PostgreSQL allows a value of up to 1 GB."""


class PostgresStore(LaneLog):
    """Keeps the contract of `Store` in a lane of a database."""

    engine_errors = (psycopg.Error,)

    def __init__(
        self,
        dsn: str,
        lane: int,
        *,
        notify: Notify,
        owner: str = "",
        takes_over: bool = True,
        faults: LaneFaults | None = None,
        shared: SharedAppends | None = None,
        segment_bytes: int = SEGMENT_BYTES,
        recent_bytes: int = RECENT_BYTES,
        probe_interval_s: float = PROBE_INTERVAL_S,
        slow_commit_s: float = SLOW_COMMIT_S,
    ) -> None:
        self._lane = Lane(dsn, lane, owner, takes_over, faults)
        self._shared = shared
        self._probe_interval_s = probe_interval_s
        table = SegmentTable(Path(self._lane.name))
        self._newest = RecentEntries(recent_bytes)
        self._readers = DatabaseReaders(self._lane, table, self._newest, notify)
        self._keeper = DatabaseKeeper(self._lane, table, notify, self._update_state)
        self._tables = LaneTables(self._lane, self._readers)
        self._compactor = Compactor(
            self._tables, table, notify, segment_bytes, f"lane-compact-{lane}"
        )
        self._pages = LanePages(self._lane)
        self._connection: Connection | None = None
        """Used by recovery, then by the commit thread."""
        super().__init__(
            self._lane.name,
            table,
            self._readers,
            self._keeper,
            notify,
            segment_bytes=segment_bytes,
            segment_header_bytes=0,
            entry_bytes_max=ENTRY_BYTES_MAX,
            slow_commit_s=slow_commit_s,
            recent=self._newest,
        )

    @property
    def epoch(self) -> int:
        """That of this writer; each takeover of the lane has a higher one."""
        return self._lane.epoch

    @property
    def is_superseded(self) -> bool:
        """Whether the database has refused this writer, because a later one took over."""
        return self._lane.is_superseded

    # --- opening and closing ------------------------------------------------------------

    def close(self) -> None:
        """Commit pending entries, end the threads, release the lane."""
        super().close()
        self._compactor.close()
        self._tables.close()
        self._readers.close()
        self._keeper.close()
        self._pages.close()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _recover(self) -> Recovered:
        connection = self._connection = self._lane.connect("append")
        row = self._lane.take_over(connection, secrets.token_bytes(16), FIRST_POSITION)
        self._log_id = row.log_id
        self._seed = crc32c(row.log_id)
        self._lane.drop_garbage(connection)
        found = self._lane.segments(connection)
        bases = [s.base for s in found if not s.revision] or [row.tail]
        kept = [self._tables.load(connection, s) for s in found if s.revision]
        self._table.fill(bases, [row.tail - base for base in bases], kept)
        self._tables.identify(self._seed)
        states = self._lane.states(connection)
        pages = dict(self._lane.pages(connection))
        self._keeper.adopt(row.checkpoint, pages, sum(map(len, states.values())))
        self._pages.last = max(pages, default=0)
        records = self._ready(self._replay(connection, bases, row))
        return Recovered(states, records, self._pages)

    def _replay(
        self, connection: Connection, bases: list[int], row: LaneRow
    ) -> Iterator[RecoveredRecord]:
        try:
            for base, after in zip(bases, [*bases[1:], sys.maxsize], strict=True):
                if after > row.checkpoint and row.tail > row.checkpoint:
                    for position, data in self._lane.entries(connection, base, row.checkpoint):
                        self._newest.add(position, data)  # likely to be delivered soon
                        yield from self._records(position, data, row.checkpoint)
            self._require_open()
            self._begin_at(connection, bases[-1], row.tail)
        except psycopg.Error as error:
            raise StoreUnavailable(f"The {self.name} cannot be read: {error}") from error

    def _records(self, position: int, data: bytes, covered: int) -> Iterator[RecoveredRecord]:
        """The records of the entries in one row; a checkpoint may cover the first of them."""
        offset = 0
        while offset < len(data):
            header = unpack_header(self._seed, data, offset)
            start = offset + ENTRY_HEADER_BYTES
            is_intact = header is not None and header.position == position + offset
            payload = data[start : start + header.length] if header is not None else b""
            if header is None or not is_intact or crc32c(payload) != header.crc:
                raise StoreCorrupt(
                    f"The {self.name}: position {position + offset:#x}: an entry is damaged. "
                    "Restore the database from a backup; nothing was changed.",
                    self.name,
                )
            if header.position >= covered:
                yield from entry_records(self.name, 0, header, payload)
            offset = start + header.length

    def _begin_at(self, connection: Connection, base: int, tail: int) -> None:
        writer = LaneWriter(
            self._lane, connection, self._seed, base, tail, self.timings, self._shared
        )
        try:
            writer.fence()
        except BaseException:
            writer.close()
            raise
        commit = CommitThread(
            writer,
            self,
            self._notify,
            thread_name=f"lane-append-{self._lane.number}",
            timings=self.timings,
            probe_interval_s=self._probe_interval_s,
            helper=None if self._shared is None else writer,
        )
        self._connection = None
        self._begin(commit, base, writer.durable)

    # --- what is kept ---------------------------------------------------------------------

    def _keep(
        self, position: int, states: dict[int, bytes], increment: Increment | None, done: Done
    ) -> None:
        self._pages.close()
        self._keeper.checkpoint(position, states, increment, done)

    def compact(self, done: Done) -> bool:
        """Free what is dead before the last checkpoint, as far as it is worth it."""
        if self._commit is None or self._down:
            return False
        return self._compactor.begin(self._keeper.position, done)

    @property
    def free_bytes(self) -> int | None:
        """None: only the database knows its disk."""
        return None

    @property
    def disk_bytes(self) -> int:
        """The bytes of the entries and the checkpoint, without the database's overhead."""
        return self._table.sealed_bytes + self._tail - self._base + self._keeper.kept_bytes


class LanePages:
    """The pages of the latest checkpoint, over a connection that is made when needed."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._connection = LaneConnection(lane, "recover")
        self.last = 0

    def read(self, number: int) -> bytes:
        """A page; raises StoreCorrupt when it is missing."""
        try:
            page = self._lane.page(self._connection.get(), number)
        except psycopg.Error as error:
            raise StoreUnavailable(f"The {self._lane.name} cannot be read: {error}") from error
        if page is None:
            name = self._lane.name
            raise StoreCorrupt(f"The {name}: a checkpoint lacks the page {number}.", name)
        return page

    def close(self) -> None:
        """Close the connection."""
        self._connection.drop()
