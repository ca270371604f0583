"""The embedded store: a log in segment files, and the latest checkpoint.

Owns the places of entries in the log and the wiring of the parts: commit thread, readers,
segment table, checkpoints. It lives on the loop thread; the threads below it hand their
news back through `notify`. Holds no body and knows no meaning. Called by the broker.
"""

import contextlib
import sys
import time
from array import array
from collections import deque
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Final

from partibus.domain.errors import (
    BusError,
    InvalidOperation,
    MessageTooLarge,
    StoreUnavailable,
)
from partibus.store.callbacks import tell
from partibus.store.capture import Capture
from partibus.store.checkpoint import Checkpoint
from partibus.store.commit import PROBE_INTERVAL_S, CommitThread, PendingEntry
from partibus.store.compaction.compactor import Compactor
from partibus.store.disk import Claim, Disk, OsDisk
from partibus.store.housekeeping import Housekeeper
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
from partibus.store.inventory import prepare_log
from partibus.store.pages import PageReader
from partibus.store.pins import PinnedDisk
from partibus.store.reading import Readers
from partibus.store.record import (
    ENTRY_HEADER_BYTES,
    ENTRY_PAYLOAD_BYTES_MAX,
    Record,
    crc32c,
    encode_payload,
    place_records,
)
from partibus.store.recovery import LogScan, settle_tail
from partibus.store.room import FREE_MIN, RESERVE_NAME, FreeMin, Room
from partibus.store.segment import SEGMENT_BYTES, SEGMENT_HEADER_BYTES, segment_name
from partibus.store.table import SegmentTable
from partibus.store.watermark import WATERMARK_BYTES, Watermark

# A commit that takes longer means a disk in trouble: clients lose patience within seconds.
SLOW_COMMIT_S: Final = 2.0
# Records whose commit is carried out in one turn of the loop, one to two milliseconds: a disk
# that took long to sync has thousands of them durable at once.
TOLD_PER_TURN: Final = 256


class SegmentStore:
    """Keeps the contract of `Store` in a directory of its own."""

    def __init__(
        self,
        directory: Path,
        *,
        notify: Notify,
        segment_bytes: int = SEGMENT_BYTES,
        disk: Disk | None = None,
        probe_interval_s: float = PROBE_INTERVAL_S,
        slow_commit_s: float = SLOW_COMMIT_S,
        free_min: FreeMin = FREE_MIN,
    ) -> None:
        self.state = StoreState.UP
        self.on_state: Callable[[StoreState], None] | None = None
        self.shortage: str | None = None
        self._directory = directory
        self.timings = StoreTimings()
        self._notify = notify
        self._disk: Disk = OsDisk() if disk is None else disk
        self._segment_bytes = segment_bytes
        self._probe_interval_s = probe_interval_s
        self._slow_commit_s = slow_commit_s
        self._store_id = b""
        self._lock: Claim | None = None
        self._watermark: Watermark | None = None
        self._pages: PageReader | None = None
        self._commit: CommitThread | None = None  # none before recovery ended, none after close
        self._table = SegmentTable(directory)
        self._readers = Readers(self._disk, directory, self._table, notify)
        self._room = Room(self._disk, directory, free_min)
        self._pins = PinnedDisk(self._disk)
        self._is_frozen = False
        self._keeper = Housekeeper(
            self._pins,
            directory,
            self._table,
            notify,
            room=self._room,
            forget=self._readers.forget,
            changed=self._update_state,
        )
        self._compactor = Compactor(
            self._pins, directory, self._table, self._readers, notify, segment_bytes
        )
        self._refused: list[tuple[Done, BusError]] = []
        self._untold: deque[PendingEntry] = deque()  # durable, and their `done` is to run yet
        self._down = False
        self._slow = False
        self._base = 0  # the segment that the next entry goes to, unless it is full
        self._limit = 0  # where that segment is full
        self._tail = 0  # where the next entry goes
        self._acknowledged = 0  # the end of the last entry whose `done` ran
        self._durable_end = 0  # where the log ended when that was last asked

    # --- opening and closing ------------------------------------------------------------

    def open(self) -> Recovered:
        """Lock the directory and begin to recover; an empty log is ready at once."""
        try:
            self._lock = self._disk.claim(self._directory)
            return self._recover()
        except OSError as error:
            self.close()
            raise StoreUnavailable(
                f"The store {self._directory} cannot be opened: {error}."
            ) from error
        except BusError:
            self.close()
            raise

    def close(self) -> None:
        """Commit what waits, end the threads, let others have the directory."""
        self.thaw()
        commit, self._commit = self._commit, None
        if commit is not None:
            commit.close()
            self._durable_end = commit.durable
        self._compactor.close()
        self._readers.close()
        self._keeper.close()
        if self._pages is not None:
            self._pages.close()
        if self._watermark is not None:
            self._watermark.close()
            self._watermark = None
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _recover(self) -> Recovered:
        # A reserve from an earlier life is of use now: even the start needs a little room.
        with contextlib.suppress(OSError):
            self._disk.remove(self._directory / RESERVE_NAME)
        inventory = prepare_log(self._disk, self._directory, self._segment_bytes)
        self._store_id = inventory.store_id
        self._table.fill(inventory.bases, inventory.sizes, inventory.compacted)
        self._compactor.identify(self._store_id, crc32c(self._store_id))
        checkpoint = inventory.checkpoint
        scan = LogScan(
            self._disk,
            self._directory,
            seed=crc32c(self._store_id),
            bases=inventory.bases,
            start=checkpoint.position if checkpoint else 0,
            durable=inventory.durable,
            may_cut=inventory.may_cut,
        )
        if checkpoint:
            self._keeper.adopt(checkpoint)
        places = checkpoint.places if checkpoint else {}
        pages = self._pages = PageReader(self._disk, self._directory, places, self._store_id)
        records = self._replay(scan, inventory.bases[-1], pages)
        first = next(records, None)  # with nothing to replay, this makes the store ready
        rest = records if first is None else chain((first,), records)
        return Recovered(checkpoint.states if checkpoint else {}, rest, pages)

    def _replay(self, scan: LogScan, base: int, pages: PageReader) -> Iterator[RecoveredRecord]:
        try:
            yield from scan.records()
            pages.close()
            if self._lock is None:
                raise InvalidOperation("The store was closed while its records were read.")
            self._begin(scan, base)
        except OSError as error:
            raise StoreUnavailable(
                f"The store {self._directory} cannot be read: {error}."
            ) from error

    def _begin(self, scan: LogScan, base: int) -> None:
        """Recovery is over: take appends."""
        settle_tail(self._disk, self._directory, scan, base, self._segment_bytes)
        self._keeper.drop_older()
        self._watermark = Watermark(self._disk, self._directory, self._store_id, scan.end)
        self._commit = CommitThread(
            self._disk,
            self._directory,
            self,
            self._notify,
            self._watermark,
            store_id=self._store_id,
            seed=crc32c(self._store_id),
            segment_bytes=self._segment_bytes,
            base=base,
            tail=scan.end,
            room=self._room,
            timings=self.timings,
            probe_interval_s=self._probe_interval_s,
        )
        self._acknowledged = scan.end
        self._table.begin(scan.end)
        self._go_on_at(base, scan.end)
        if self._room.look(time.monotonic(), scan.end):
            self.room_changed(self._room.describe())
        self._commit.start()

    def _go_on_at(self, base: int, tail: int) -> None:
        self._base = base
        self._tail = tail
        self._limit = base + self._segment_bytes

    # --- appending ----------------------------------------------------------------------

    def append(self, records: list[Record], done: Done) -> None:
        """Encode the batch, give it its place and hand it to the commit thread."""
        commit = self._commit
        if commit is None or self._down:
            self._refuse(done)
            return
        payload = encode_payload(records)
        length = ENTRY_HEADER_BYTES + payload.length
        if length > ENTRY_PAYLOAD_BYTES_MAX:
            raise MessageTooLarge(f"A batch of {length} bytes does not fit into the log.")
        position = self._tail
        if position + length > self._limit and position > self._base + SEGMENT_HEADER_BYTES:
            position = self._roll()
        entry = PendingEntry(self._base, position, payload, done)
        if not commit.submit(entry):
            self._refuse(done)
            return
        place_records(records, payload, position)
        self._tail = position + length
        self._table.append(payload.body_bytes)

    def _roll(self) -> int:
        """The next entry begins a new segment; the commit thread makes the file."""
        base = self._tail
        self._table.seal(base)
        self._table.add(base)
        self._go_on_at(base, base + SEGMENT_HEADER_BYTES)
        return self._tail

    def _refuse(self, done: Done) -> None:
        if self._commit is None and self._lock is not None:
            raise InvalidOperation("Read the recovered records to their end before appending.")
        why = "is down; it is probed, try again" if self._commit else "is closed"
        if not self._refused:
            self._notify(self._tell_refused)
        self._refused.append((done, StoreUnavailable(f"The store {self._directory} {why}.")))

    def _tell_refused(self) -> None:
        refused, self._refused = self._refused, []
        for done, error in refused:
            tell(done, error)

    # --- news of the commit thread, on the loop thread ------------------------------------

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
        """Tell whose entries are durable, in their order; those beyond `most` in the next turn."""
        untold = self._untold
        while untold and most > 0:
            entry = untold.popleft()
            self._acknowledged = entry.end
            most -= max(1, entry.payload.count)
            tell(entry.done, None)
        if untold:
            self._notify(self._tell_some)

    def failed(self, entries: list[PendingEntry], error: StoreUnavailable) -> None:
        """These never will be: their places are void. Those before them hear first."""
        self._tell_some(sys.maxsize)
        self._down = True
        self._update_state()
        for entry in entries:
            self._table.void(entry.position, entry.payload.body_bytes)
            tell(entry.done, error)

    def restored(self, base: int, tail: int) -> None:
        """The disk answers again; refused callers learn it before appends continue."""
        self._tell_refused()
        self._table.reopen(base, tail)
        self._go_on_at(base, tail)
        self._readers.forget([segment_name(base)])
        self._down = False
        if self._commit is not None:
            self._commit.resume()
        self._update_state()

    def room_changed(self, shortage: str | None) -> None:
        """There is too little room on the disk to take messages, or enough again."""
        self.shortage = shortage
        self._update_state()

    def _update_state(self) -> None:
        state = StoreState.UP
        if self._down:
            state = StoreState.DOWN
        elif self._slow or self._keeper.failing or self.shortage is not None:
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
        """The bodies from the reader thread."""
        self._readers.read(refs, done)

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
        if self._commit is None or self._down:
            self._refuse(done)
            return
        position = self._acknowledged if increment is None else increment.position
        checkpoint = Checkpoint(self._store_id, position, self._commit.durable, dict(states))
        self._keeper.checkpoint(checkpoint, increment, done)

    @property
    def checkpoint_bytes(self) -> int:
        """What the last checkpoint wrote."""
        return self._keeper.written_bytes

    def compact(self, done: Done) -> bool:
        """Give back what is dead before the last checkpoint, as far as it is worth it."""
        if self._commit is None or self._down:
            return False
        return self._compactor.begin(
            self._keeper.position, done, is_eager=self.shortage is not None
        )

    # --- being copied -------------------------------------------------------------------------

    def pin(self) -> None:
        """Delete no file from now on; space comes back with `unpin`."""
        self._pins.pin()

    def unpin(self) -> None:
        """Delete what would have been deleted; this may take a while, on whatever thread."""
        self._pins.unpin()

    def freeze(self) -> Capture:
        """Let nothing more become durable until `thaw`, and say what is: pin before.

        Pending commits wait, so that several stores can be captured at one moment."""
        commit = self._commit
        if commit is None or self._down:
            raise StoreUnavailable(f"The store {self._directory} is down; try again when it is up.")
        assert not self._is_frozen, "a store was frozen twice"
        commit.gate.acquire()
        self._is_frozen = True
        return Capture(self._store_id, commit.durable, self._disk.names(self._directory))

    def thaw(self) -> bool:
        """Continue; False when it continued already."""
        was_frozen, self._is_frozen = self._is_frozen, False
        if was_frozen and self._commit is not None:
            self._commit.gate.release()
        return was_frozen

    @property
    def tail(self) -> int:
        """Where the next entry goes."""
        return self._tail

    @property
    def log_end(self) -> tuple[bytes, int] | None:
        """The id of the log, and how far it is durable, also when it was closed."""
        if self._commit is not None:
            self._durable_end = self._commit.durable
        return (self._store_id, self._durable_end) if self._durable_end else None

    @property
    def bytes_since_checkpoint(self) -> int:
        """What a recovery would have to read."""
        return self._tail - self._keeper.position

    @property
    def pending_bytes(self) -> int:
        """What was appended and is not durable yet."""
        return 0 if self._commit is None else self._tail - self._commit.durable

    @property
    def live_bytes(self) -> int:
        """The bodies that are retained."""
        return self._table.live_bytes

    @property
    def free_bytes(self) -> int | None:
        """What was free on the disk when it was last looked at."""
        return self._room.free_bytes

    @property
    def disk_bytes(self) -> int:
        """What the store's files take."""
        last = self._tail - self._base if self._commit is None else self._commit.reserved_bytes
        beside = self._keeper.file_bytes + WATERMARK_BYTES + self._room.reserve_bytes
        return self._table.sealed_bytes + last + beside

    @property
    def dead_bytes(self) -> int:
        """What the files take beyond the bodies that are retained, those shared counted often."""
        return self.disk_bytes - self._table.live_bytes
