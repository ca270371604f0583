"""The store in a PostgreSQL database.

Owns the places of entries in the log of a lane and the wiring of the parts: the appending thread,
the readers, the account of live bodies, checkpoints. It lives on the loop thread; the threads
below it hand their news back through `notify`. Knows no meaning of a record. Called by the broker.
"""

import secrets
import sys
from array import array
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import psycopg

from partibus.domain.errors import (
    BusError,
    InvalidOperation,
    MessageTooLarge,
    StoreCorrupt,
    StoreUnavailable,
)
from partibus.store.callbacks import tell
from partibus.store.interface import (
    Done,
    Increment,
    Notify,
    ReadDone,
    Recovered,
    RecoveredRecord,
    Ref,
    StoreState,
    StoreTimings,
)
from partibus.store.postgres.appending import PROBE_INTERVAL_S, AppendThread, LaneEntry
from partibus.store.postgres.keeping import LaneKeeper
from partibus.store.postgres.lane import Connection, Lane, LaneConnection, LaneRow
from partibus.store.postgres.reading import LaneReaders
from partibus.store.postgres.recent import RECENT_BYTES, RecentEntries
from partibus.store.record import (
    ENTRY_HEADER_BYTES,
    Record,
    crc32c,
    encode_payload,
    pack_header,
    place_records,
    unpack_header,
)
from partibus.store.recovery import entry_records
from partibus.store.table import SegmentTable

SEGMENT_BYTES: Final = 256 << 20
FIRST_POSITION: Final = 64
"""Position 0 means "no body"."""
ENTRY_BYTES_MAX: Final = 512 << 20
"""PostgreSQL takes a value of up to 1 GB."""
SLOW_COMMIT_S: Final = 2.0
TOLD_PER_TURN: Final = 256


class PostgresStore:
    """Keeps the contract of `Store` in a lane of a database."""

    def __init__(
        self,
        dsn: str,
        lane: int,
        *,
        notify: Notify,
        owner: str = "",
        segment_bytes: int = SEGMENT_BYTES,
        recent_bytes: int = RECENT_BYTES,
        probe_interval_s: float = PROBE_INTERVAL_S,
        slow_commit_s: float = SLOW_COMMIT_S,
    ) -> None:
        self.state = StoreState.UP
        self.on_state: Callable[[StoreState], None] | None = None
        self.shortage: str | None = None
        self.timings = StoreTimings()
        self._lane = Lane(dsn, lane, owner)
        self._notify = notify
        self._segment_bytes = segment_bytes
        self._probe_interval_s = probe_interval_s
        self._slow_commit_s = slow_commit_s
        self._table = SegmentTable(Path(self._lane.name))
        self._recent = RecentEntries(recent_bytes)
        self._readers = LaneReaders(self._lane, self._table, self._recent, notify)
        self._keeper = LaneKeeper(self._lane, self._table, notify, self._update_state)
        self._pages = LanePages(self._lane)
        self._connection: Connection | None = None
        """Of recovery, until the appending thread has it."""
        self._appends: AppendThread | None = None
        self._log_id = b""
        self._seed = 0
        self._refused: list[tuple[Done, BusError]] = []
        self._untold: deque[LaneEntry] = deque()
        self._down = False
        self._slow = False
        self._base = 0
        self._tail = 0
        self._acknowledged = 0
        self._durable_end = 0

    # --- opening and closing ------------------------------------------------------------

    def open(self) -> Recovered:
        """Become the writer of the lane and begin to recover; an empty log is ready at once."""
        try:
            self._connection = self._lane.connect("append")
            return self._recover(self._connection)
        except psycopg.Error as error:
            self.close()
            raise StoreUnavailable(f"The {self._lane.name} cannot be opened: {error}") from error
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Commit what waits, end the threads, let others have the lane."""
        appends, self._appends = self._appends, None
        if appends is not None:
            appends.close()
            self._durable_end = appends.durable
        self._readers.close()
        self._keeper.close()
        self._pages.close()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _recover(self, connection: Connection) -> Recovered:
        row = self._lane.take_over(connection, secrets.token_bytes(16), FIRST_POSITION)
        self._log_id = row.log_id
        self._seed = crc32c(row.log_id)
        bases = self._lane.segments(connection) or [row.tail]
        self._table.fill(bases, [row.tail - base for base in bases])
        states = self._lane.states(connection)
        pages = dict(self._lane.pages(connection))
        self._keeper.adopt(row.checkpoint, pages, sum(map(len, states.values())))
        self._pages.last = max(pages, default=0)
        records: Iterator[RecoveredRecord] = iter(())
        if row.tail > row.checkpoint:
            records = self._replay(connection, bases, row)
        else:
            self._begin(connection, bases, row.tail)
        return Recovered(states, records, self._pages)

    def _replay(
        self, connection: Connection, bases: list[int], row: LaneRow
    ) -> Iterator[RecoveredRecord]:
        try:
            for base, after in zip(bases, [*bases[1:], sys.maxsize], strict=True):
                if after > row.checkpoint:
                    for position, data in self._lane.entries(connection, base, row.checkpoint):
                        self._recent.add(position, data)  # likely to be delivered soon
                        yield from self._records(position, data, row.checkpoint)
            if self._connection is None:
                raise InvalidOperation("The store was closed while its records were read.")
            self._begin(connection, bases, row.tail)
        except psycopg.Error as error:
            raise StoreUnavailable(f"The {self._lane.name} cannot be read: {error}") from error

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
                    f"The {self._lane.name}: position {position + offset:#x}: an entry is damaged. "
                    "Restore the database from a backup; nothing was changed."
                )
            if header.position >= covered:
                yield from entry_records(self._lane.name, 0, header, payload)
            offset = start + header.length

    def _begin(self, connection: Connection, bases: list[int], tail: int) -> None:
        """Recovery is over: take appends."""
        self._base = bases[-1]
        self._table.begin(tail)
        self._tail = self._acknowledged = tail
        self._appends = AppendThread(
            self._lane,
            connection,
            self,
            self._notify,
            tail,
            timings=self.timings,
            probe_interval_s=self._probe_interval_s,
        )
        self._connection = None
        self._appends.start()

    # --- appending ----------------------------------------------------------------------

    def append(self, records: list[Record], done: Done) -> None:
        """Encode the batch, give it its place and hand it to the appending thread."""
        appends = self._appends
        if appends is None or self._down:
            self._refuse(done)
            return
        payload = encode_payload(records)
        length = ENTRY_HEADER_BYTES + payload.length
        if length > ENTRY_BYTES_MAX:
            raise MessageTooLarge(f"A batch of {length} bytes does not fit into the log.")
        position = self._tail
        if position + length > self._base + self._segment_bytes and position > self._base:
            self._roll()
        header = pack_header(self._seed, position, 0, payload.length, payload.count, payload.crc)
        data = b"".join([header, *payload.parts])
        entry = LaneEntry(
            self._base, position, position, data, payload.body_bytes, payload.count, done
        )
        if not appends.submit(entry):
            self._refuse(done)
            return
        place_records(records, payload, position)
        self._recent.add(position, data)
        self._tail = position + length
        self._table.append(payload.body_bytes)

    def _roll(self) -> None:
        """The next entry begins a new segment; the appending thread makes its table."""
        self._table.seal(self._tail)
        self._table.add(self._tail)
        self._base = self._tail

    def _refuse(self, done: Done) -> None:
        if self._appends is None and self._connection is not None:
            raise InvalidOperation("Read the recovered records to their end before appending.")
        why = "is down; it is probed, try again" if self._appends else "is closed"
        if not self._refused:
            self._notify(self._tell_refused)
        self._refused.append((done, StoreUnavailable(f"The {self._lane.name} {why}.")))

    def _tell_refused(self) -> None:
        refused, self._refused = self._refused, []
        for done, error in refused:
            tell(done, error)

    # --- news of the appending thread, on the loop thread -----------------------------------

    def committed(self, entries: list[LaneEntry], elapsed_s: float) -> None:
        """These entries are durable."""
        is_idle = not self._untold
        self._untold += entries
        if is_idle:
            self._tell_some()
        slow = elapsed_s > self._slow_commit_s
        if slow is not self._slow:
            self._slow = slow
            self._update_state()

    def _tell_some(self, most: int = TOLD_PER_TURN) -> None:
        """Report entries that are durable, in order; those beyond `most` in the next turn."""
        untold = self._untold
        while untold and most > 0:
            entry = untold.popleft()
            self._acknowledged = entry.end
            most -= max(1, entry.count)
            tell(entry.done, None)
        if untold:
            self._notify(self._tell_some)

    def failed(self, entries: list[LaneEntry], error: BusError) -> None:
        """These never will be: their places are void. Those before them hear first."""
        self._tell_some(sys.maxsize)
        self._down = True
        self._update_state()
        for entry in entries:
            self._table.void(entry.position, entry.body_bytes)
            tell(entry.done, error)

    def restored(self, tail: int) -> None:
        """The lane was taken back; whoever was refused hears of it before appends go on."""
        self._tell_refused()
        self._base = self._table.locate(tail)[0]
        self._table.reopen(self._base, tail)
        self._recent.cut(tail)
        self._tail = tail
        self._down = False
        if self._appends is not None:
            self._appends.resume()
        self._update_state()

    def _update_state(self) -> None:
        state = StoreState.UP
        if self._down:
            state = StoreState.DOWN
        elif self._slow or self._keeper.failing:
            state = StoreState.DEGRADED
        if state is not self.state:
            self.state = state
            if self.on_state is not None:
                self.on_state(state)

    # --- reading, and what is kept --------------------------------------------------------

    def read_now(self, refs: list[Ref]) -> list[bytes] | None:
        """The bodies when all of them are in memory."""
        return self._readers.read_now(refs)

    def read(self, refs: list[Ref], done: ReadDone) -> None:
        """The bodies, from the database where they are not in memory."""
        self._readers.read(refs, done)

    def retain(self, position: int, length: int) -> None:
        """Count a recovered body as live."""
        if length:
            self._table.retain(position, length)

    def retain_many(self, positions: "array[int]", lengths: "array[int]") -> None:
        """Count recovered bodies as live."""
        self._table.retain_many(positions, lengths)

    def release(self, position: int, length: int) -> None:
        """Count a body as needed no more."""
        if length:
            self._table.release(position, length)

    def hold(self, positions: list[int]) -> None:
        """Keep bodies that are about to be read."""
        for position in positions:
            self._table.hold(position)

    def let_go(self, positions: list[int]) -> None:
        """What was held was read."""
        for position in positions:
            self._table.let_go(position)

    @property
    def position(self) -> int:
        """The end of the last entry whose `done` ran."""
        return self._acknowledged

    def checkpoint(
        self, states: dict[int, bytes], done: Done, increment: Increment | None = None
    ) -> None:
        """Keep the states as of the increment's position, or as of the present one."""
        if self._appends is None or self._down:
            self._refuse(done)
            return
        self._pages.close()
        position = self._acknowledged if increment is None else increment.position
        self._keeper.checkpoint(position, dict(states), increment, done)

    @property
    def checkpoint_bytes(self) -> int:
        """What the last checkpoint wrote."""
        return self._keeper.written_bytes

    def compact(self, done: Done) -> bool:
        """Tables are dropped whole; nothing is rewritten."""
        return False

    @property
    def log_end(self) -> tuple[bytes, int] | None:
        """The id of the log, and how far it is durable, also when it was closed."""
        if self._appends is not None:
            self._durable_end = self._appends.durable
        return (self._log_id, self._durable_end) if self._durable_end else None

    @property
    def bytes_since_checkpoint(self) -> int:
        """What a recovery would have to read."""
        return self._tail - self._keeper.position

    @property
    def live_bytes(self) -> int:
        """The bodies that are retained."""
        return self._table.live_bytes

    @property
    def free_bytes(self) -> int | None:
        """The database knows its own disk."""
        return None

    @property
    def disk_bytes(self) -> int:
        """What the entries and the checkpoint take, without what the database adds."""
        return self._table.sealed_bytes + self._tail - self._base + self._keeper.kept_bytes

    @property
    def dead_bytes(self) -> int:
        """What the lane takes beyond the bodies that are retained, those shared counted often."""
        return self.disk_bytes - self._table.live_bytes


class LanePages:
    """The pages of the latest checkpoint, by a connection of their own; it is made when needed."""

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
            raise StoreCorrupt(f"The {self._lane.name}: a checkpoint lacks the page {number}.")
        return page

    def close(self) -> None:
        """Let go of the connection."""
        self._connection.drop()
