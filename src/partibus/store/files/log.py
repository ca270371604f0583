"""The embedded store: a log in segment files, and the latest checkpoint.

Owns the wiring of the parts that keep a lane log in a directory: recovery, the writer of segments,
readers, checkpoints, compaction, and the copying of a store that is in use. Must never interpret a
record. Called by the broker.
"""

import contextlib
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from partibus.domain.errors import StoreUnavailable
from partibus.store.callbacks import report
from partibus.store.compaction.compactor import Compactor
from partibus.store.compaction.segment_files import SegmentFiles
from partibus.store.files.capture import Capture
from partibus.store.files.checkpoint import Checkpoint
from partibus.store.files.disk import Disk, LockedDirectory, OsDisk
from partibus.store.files.housekeeping import Housekeeper
from partibus.store.files.inventory import prepare_log
from partibus.store.files.pins import PinnedDisk
from partibus.store.files.recovery import LogScan, settle_tail
from partibus.store.files.room import FREE_MIN, RESERVE_NAME, FreeMin, Room
from partibus.store.files.segment import SEGMENT_BYTES, SEGMENT_HEADER_BYTES, segment_name
from partibus.store.files.segment_writer import SegmentWriter
from partibus.store.files.watermark import WATERMARK_BYTES, Watermark
from partibus.store.interface import Done, Increment, Notify, Recovered, RecoveredRecord
from partibus.store.lane.commit import PROBE_INTERVAL_S, CommitThread
from partibus.store.lane.log import SLOW_COMMIT_S, LaneLog
from partibus.store.pages import PageReader
from partibus.store.reading import Readers
from partibus.store.record import ENTRY_PAYLOAD_BYTES_MAX, crc32c
from partibus.store.table import SegmentTable


class SegmentStore(LaneLog):
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
        self._directory = directory
        self._disk: Disk = OsDisk() if disk is None else disk
        self._probe_interval_s = probe_interval_s
        self._lock: LockedDirectory | None = None
        self._watermark: Watermark | None = None
        self._pages: PageReader | None = None
        self._writer: SegmentWriter | None = None
        table = SegmentTable(directory)
        self._readers = Readers(self._disk, directory, table, notify)
        self._room = Room(self._disk, directory, free_min)
        self._pins = PinnedDisk(self._disk)
        self._is_frozen = False
        self._keeper = Housekeeper(
            self._pins,
            directory,
            table,
            notify,
            room=self._room,
            forget=self._readers.forget,
            changed=self._update_state,
        )
        self._files = SegmentFiles(self._pins, directory, self._readers)
        self._compactor = Compactor(
            self._files, table, notify, segment_bytes, f"store-compact-{directory.name}"
        )
        super().__init__(
            f"store {directory}",
            table,
            self._readers,
            self._keeper,
            notify,
            segment_bytes=segment_bytes,
            segment_header_bytes=SEGMENT_HEADER_BYTES,
            entry_bytes_max=ENTRY_PAYLOAD_BYTES_MAX,
            slow_commit_s=slow_commit_s,
        )

    # --- opening and closing ------------------------------------------------------------

    def close(self) -> None:
        """Commit pending entries, end the threads, release the directory."""
        self.thaw()
        super().close()
        self._writer = None
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
        self._lock = self._disk.lock(self._directory)
        # A reserve of an earlier start is useful now: even the start needs a little space.
        with contextlib.suppress(OSError):
            self._disk.remove(self._directory / RESERVE_NAME)
        inventory = prepare_log(self._disk, self._directory, self._segment_bytes)
        self._log_id = inventory.store_id
        self._seed = crc32c(self._log_id)
        self._table.fill(inventory.bases, inventory.sizes, inventory.compacted)
        self._files.identify(self._log_id, self._seed)
        checkpoint = inventory.checkpoint
        scan = LogScan(self._disk, self._directory, inventory)
        if checkpoint:
            self._keeper.adopt(checkpoint)
        places = checkpoint.places if checkpoint else {}
        pages = self._pages = PageReader(self._disk, self._directory, places, self._log_id)
        records = self._replay(scan, inventory.bases[-1], pages)
        states = checkpoint.states if checkpoint else {}
        return Recovered(states, self._ready(records), pages)

    def _replay(self, scan: LogScan, base: int, pages: PageReader) -> Iterator[RecoveredRecord]:
        try:
            yield from scan.records()
            pages.close()
            self._require_open()
            self._begin_at(scan, base)
        except OSError as error:
            raise StoreUnavailable(f"The {self.name} cannot be read: {error}.") from error

    def _begin_at(self, scan: LogScan, base: int) -> None:
        settle_tail(self._disk, self._directory, scan, base, self._segment_bytes)
        self._keeper.drop_older()
        self._watermark = Watermark(self._disk, self._directory, self._log_id, scan.end)
        self._writer = SegmentWriter(
            self._disk,
            self._directory,
            self._watermark,
            store_id=self._log_id,
            seed=self._seed,
            segment_bytes=self._segment_bytes,
            base=base,
            tail=scan.end,
            room=self._room,
            room_changed=self._report_room,
            timings=self.timings,
        )
        commit = CommitThread(
            self._writer,
            self,
            self._notify,
            thread_name=f"store-commit-{self._directory.name}",
            timings=self.timings,
            probe_interval_s=self._probe_interval_s,
        )
        if self._room.look(time.monotonic(), scan.end):
            self.room_changed(self._room.describe())
        self._begin(commit, base, scan.end)

    # --- calls from the commit thread --------------------------------------------------------

    def _report_room(self, shortage: str | None) -> None:
        """On the thread."""
        report(self._notify, self.name, partial(self.room_changed, shortage))

    def room_changed(self, shortage: str | None) -> None:
        """The disk has too little space to accept messages, or enough again."""
        self.shortage = shortage
        self._update_state()

    def _was_cut(self, base: int) -> None:
        self._readers.forget([segment_name(base)])

    # --- what is kept ---------------------------------------------------------------------

    def _keep(
        self, position: int, states: dict[int, bytes], increment: Increment | None, done: Done
    ) -> None:
        assert self._commit is not None
        checkpoint = Checkpoint(self._log_id, position, self._commit.durable, states)
        self._keeper.checkpoint(checkpoint, increment, done)

    def compact(self, done: Done) -> bool:
        """Free what is dead before the last checkpoint, as far as it is worth it."""
        if self._commit is None or self._down:
            return False
        return self._compactor.begin(
            self._keeper.position, done, is_eager=self.shortage is not None
        )

    @property
    def free_bytes(self) -> int | None:
        """The free bytes of the disk when it was last checked."""
        return self._room.free_bytes

    @property
    def disk_bytes(self) -> int:
        """The bytes of the store's files."""
        writer = self._writer
        last = self._tail - self._base if writer is None else writer.reserved_bytes
        beside = self._keeper.file_bytes + WATERMARK_BYTES + self._room.reserve_bytes
        return self._table.sealed_bytes + last + beside

    # --- being copied -------------------------------------------------------------------------

    def pin(self) -> None:
        """Delete no file from now on; space is freed with `unpin`."""
        self._pins.pin()

    def unpin(self) -> None:
        """Delete what would have been deleted; this may take a while, on any thread."""
        self._pins.unpin()

    def freeze(self) -> Capture:
        """Let nothing more become durable until `thaw`, and return what is; `pin` first.

        Pending commits wait, so that several stores can be captured at one moment.
        """
        writer = self._writer
        if writer is None or self._down:
            raise StoreUnavailable(f"The {self.name} is down; try again when it is up.")
        assert not self._is_frozen, "a store was frozen twice"
        writer.gate.acquire()
        self._is_frozen = True
        return Capture(self._log_id, writer.durable, self._disk.names(self._directory))

    def thaw(self) -> bool:
        """Continue; False when it had already continued."""
        was_frozen, self._is_frozen = self._is_frozen, False
        if was_frozen and self._writer is not None:
            self._writer.gate.release()
        return was_frozen
