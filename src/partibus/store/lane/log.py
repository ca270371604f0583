"""The lane log: what all stores with a log have in common, whatever stores the entries.

Owns the positions of entries, the order in which appends are answered, the refusal of those that
come while the store is down, the state that the broker sees, and the counts of live bodies. The
engine makes things durable: it provides a commit thread over its own `CommitEngine`, readers and a
keeper of checkpoints. Runs on the loop thread; the threads below it report through `notify`. Keeps
only the bodies of recent entries, and must never interpret a record. Called by the broker.
"""

import sys
from array import array
from collections import deque
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Final, Protocol

from partibus.domain.errors import (
    BusError,
    InvalidOperation,
    MessageTooLarge,
    StoreUnavailable,
    TransientError,
)
from partibus.store import record
from partibus.store.callbacks import call_back
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
from partibus.store.lane.commit import CommitThread, PendingEntry
from partibus.store.lane.recent import RecentEntries
from partibus.store.table import SegmentTable

# A slower commit means a disk or a database in difficulty: clients give up within seconds.
SLOW_COMMIT_S: Final = 2.0
# Records whose commit is carried out in one turn of the loop, one to two milliseconds: after a
# slow sync thousands of them are durable at once.
TOLD_PER_TURN: Final = 256


class LaneReaders(Protocol):
    """Reads bodies that were appended."""

    def read_now(self, refs: list[Ref]) -> list[bytes] | None:
        """The bodies when all of them are in memory."""
        ...

    def read(self, refs: list[Ref], done: ReadDone) -> None:
        """The bodies, waiting if necessary."""
        ...


class LaneKeeper(Protocol):
    """Writes checkpoints."""

    position: int
    """The position of the latest durable one."""
    written_bytes: int
    """The bytes that the latest one wrote."""
    failing: bool
    """Whether the last one could not be written."""


class LaneLog:
    """Keeps the contract of `Store`, except for what only the engine knows."""

    def __init__(
        self,
        name: str,
        table: SegmentTable,
        readers: LaneReaders,
        keeper: LaneKeeper,
        notify: Notify,
        *,
        segment_bytes: int,
        segment_header_bytes: int,
        entry_bytes_max: int,
        slow_commit_s: float,
        recent: RecentEntries | None = None,
    ) -> None:
        self.name = name
        self.state = StoreState.UP
        self.fenced = False
        self.on_state: Callable[[StoreState], None] | None = None
        self.shortage: str | None = None
        self.timings = StoreTimings()
        self._table = table
        self._bodies = readers
        self._latest = keeper
        self._notify = notify
        self._segment_bytes = segment_bytes
        self._segment_header_bytes = segment_header_bytes
        self._entry_bytes_max = entry_bytes_max
        self._slow_commit_s = slow_commit_s
        self._recent = recent
        """None where the engine has its own cache."""
        self._log_id = b""
        self._seed = 0
        self._commit: CommitThread | None = None  # None before recovery has ended and after close
        self._is_recovering = False
        self._refused: list[tuple[Done, BusError]] = []
        self._untold: deque[PendingEntry] = deque()  # durable, but their `done` has not run yet
        self._down = False
        self._slow = False
        self._base = 0  # the segment that the next entry goes to, unless it is full
        self._limit = 0  # where that segment is full
        self._tail = 0  # where the next entry goes
        self._acknowledged = 0  # the end of the last entry whose `done` ran
        self._durable_end = 0  # where the log ended when it was last read

    # --- opening and closing ------------------------------------------------------------

    engine_errors: tuple[type[Exception], ...] = (OSError,)
    """What the engine raises when it is unreachable."""

    def open(self) -> Recovered:
        """Become the writer of the log and begin to recover; an empty log is ready at once."""
        self._is_recovering = True
        try:
            return self._recover()
        except self.engine_errors as error:
            self.close()
            raise StoreUnavailable(f"The {self.name} cannot be opened: {error}.") from error
        except BaseException:
            self.close()
            raise

    def _recover(self) -> Recovered:
        raise NotImplementedError

    def _begin(self, commit: CommitThread, base: int, tail: int) -> None:
        """Recovery is over: accept appends."""
        self._acknowledged = tail
        self._table.begin(tail)
        self._go_on_at(base, tail)
        self._commit = commit
        self._is_recovering = False
        commit.start()

    def _ready(self, records: Iterator[RecoveredRecord]) -> Iterator[RecoveredRecord]:
        """With nothing to replay, the store is ready at once."""
        first = next(records, None)
        return records if first is None else chain((first,), records)

    def _require_open(self) -> None:
        if not self._is_recovering:
            raise InvalidOperation("The store was closed while its records were read.")

    def close(self) -> None:
        """Commit pending entries and end the commit thread."""
        self._is_recovering = False
        commit, self._commit = self._commit, None
        if commit is not None:
            commit.close()
            self._durable_end = commit.durable

    def _go_on_at(self, base: int, tail: int) -> None:
        self._base = base
        self._tail = tail
        self._limit = base + self._segment_bytes

    # --- appending ----------------------------------------------------------------------

    def append(self, records: list[record.Record], done: Done) -> None:
        """Encode the batch, assign its position and pass it to the commit thread."""
        commit = self._commit
        if commit is None or self._down:
            self._refuse(done)
            return
        payload = record.encode_payload(records)
        length = record.ENTRY_HEADER_BYTES + payload.length
        if length > self._entry_bytes_max:
            raise MessageTooLarge(f"A batch of {length} bytes does not fit into the log.")
        position = self._tail
        if position + length > self._limit and position > self._base + self._segment_header_bytes:
            position = self._roll()
        entry = PendingEntry(self._base, position, payload, done)
        if self._recent is not None:
            entry.data = self._whole_entry(position, payload)
        if not commit.submit(entry):
            self._refuse(done)
            return
        record.place_records(records, payload, position)
        if self._recent is not None:
            self._recent.add(position, entry.data)
        self._tail = position + length
        self._table.append(payload.body_bytes)

    def _whole_entry(self, position: int, payload: record.Payload) -> bytes:
        """The whole entry, to be kept in memory; its header need not contain the durable
        position."""
        header = record.pack_header(
            self._seed, position, 0, payload.length, payload.count, payload.crc
        )
        return b"".join([header, *payload.parts])

    def _roll(self) -> int:
        """The next entry begins a new segment; the engine makes its file or table."""
        base = self._tail
        self._table.seal(base)
        self._table.add(base)
        self._go_on_at(base, base + self._segment_header_bytes)
        return self._tail

    def _refuse(self, done: Done) -> None:
        if self._is_recovering:
            raise InvalidOperation("Read the recovered records to their end before appending.")
        why = "is down; it is probed, try again" if self._commit else "is closed"
        if self.fenced:
            why = "has another writer; connect again"
        if not self._refused:
            self._notify(self._tell_refused)
        self._refused.append((done, StoreUnavailable(f"The {self.name} {why}.")))

    def _tell_refused(self) -> None:
        refused, self._refused = self._refused, []
        for done, error in refused:
            call_back(done, error)

    # --- calls from the commit thread, on the loop thread ------------------------------------

    def committed(self, entries: list[PendingEntry], elapsed_s: float) -> None:
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
        """Report durable entries in their order; those beyond `most` in the next turn."""
        untold = self._untold
        while untold and most > 0:
            entry = untold.popleft()
            self._acknowledged = entry.end
            most -= max(1, entry.payload.count)
            call_back(entry.done, None)
        if untold:
            self._notify(self._tell_some)

    def failed(self, entries: list[PendingEntry], error: TransientError) -> None:
        """These never will be durable, at least not here: their positions are void. Earlier ones
        are reported first."""
        self._tell_some(sys.maxsize)
        self._down = True
        self._update_state()
        for entry in entries:
            self._table.void(entry.position, entry.payload.body_bytes)
            call_back(entry.done, error)

    def was_fenced(self) -> None:
        """Another writer has the log: this one is down for good."""
        self.fenced = self._down = True
        self._tell_some(sys.maxsize)
        self._change(StoreState.DOWN)

    def restored(self, base: int, tail: int) -> None:
        """The engine works again; refused callers are notified before appends continue."""
        self._tell_refused()
        self._table.reopen(base, tail)
        self._go_on_at(base, tail)
        if self._recent is not None:
            self._recent.cut(tail)
        self._was_cut(base)
        self._down = False
        if self._commit is not None:
            self._commit.resume()
        self._update_state()

    def _was_cut(self, base: int) -> None:
        """Refused entries were cut from the segment `base`."""

    def _update_state(self) -> None:
        state = StoreState.UP
        if self._down:
            state = StoreState.DOWN
        elif self._slow or self._latest.failing or self.shortage is not None:
            state = StoreState.DEGRADED
        if state is not self.state:
            self._change(state)

    def _change(self, state: StoreState) -> None:
        self.state = state
        if self.on_state is not None:
            self.on_state(state)

    # --- reading, and what is kept --------------------------------------------------------

    def read_now(self, refs: list[Ref]) -> list[bytes] | None:
        """The bodies when all of them are in memory."""
        return self._bodies.read_now(refs)

    def read(self, refs: list[Ref], done: ReadDone) -> None:
        """The bodies from the reader thread."""
        self._bodies.read(refs, done)

    def retain(self, position: int, length: int) -> None:
        """Count a recovered body as live."""
        if length:
            self._table.retain(position, length)

    def retain_many(self, positions: "array[int]", lengths: "array[int]") -> None:
        """Count recovered bodies as live."""
        self._table.retain_many(positions, lengths)

    def release(self, position: int, length: int) -> None:
        """Count a body as no longer needed."""
        if length:
            self._table.release(position, length)

    def hold(self, positions: list[int]) -> None:
        """Keep bodies that are about to be read."""
        for position in positions:
            self._table.hold(position)

    def let_go(self, positions: list[int]) -> None:
        """The held bodies were read."""
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
        if self._commit is None or self._down:
            self._refuse(done)
            return
        position = self._acknowledged if increment is None else increment.position
        self._keep(position, dict(states), increment, done)

    def _keep(
        self, position: int, states: dict[int, bytes], increment: Increment | None, done: Done
    ) -> None:
        raise NotImplementedError

    @property
    def checkpoint_bytes(self) -> int:
        """The bytes that the last checkpoint wrote."""
        return self._latest.written_bytes

    @property
    def tail(self) -> int:
        """Where the next entry goes."""
        return self._tail

    @property
    def log_end(self) -> tuple[bytes, int] | None:
        """The id of the log, and how far it is durable, also after it was closed."""
        if self._commit is not None:
            self._durable_end = self._commit.durable
        return (self._log_id, self._durable_end) if self._durable_end else None

    @property
    def bytes_since_checkpoint(self) -> int:
        """The bytes that a recovery would have to read."""
        return self._tail - self._latest.position

    @property
    def live_bytes(self) -> int:
        """The bytes of the retained bodies."""
        return self._table.live_bytes

    @property
    def disk_bytes(self) -> int:
        """The bytes that the store uses on the disk."""
        raise NotImplementedError

    @property
    def dead_bytes(self) -> int:
        """The bytes used besides the retained bodies; shared ones count several times."""
        return self.disk_bytes - self._table.live_bytes
