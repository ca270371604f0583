"""Entries become durable in segment files: the engine of the store in a directory.

Owns the segment that is written to, the space reserved in it, the durable position and its
watermark, and the cut of what was refused. Watches the free disk space. Blocks; belongs to the
commit thread, which groups the entries and probes after a failure. Made by the store.
"""

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from partibus.store.files import segment
from partibus.store.files.disk import Disk
from partibus.store.files.room import Room, is_full
from partibus.store.files.watermark import Watermark
from partibus.store.interface import StoreTimings
from partibus.store.lane.commit import PendingEntry
from partibus.store.record import ENTRY_HEADER_BYTES, pack_header

# When nothing was appended for this long, the watermark is synced too: within this time, after a
# power loss, damage to the last commits would look like a torn tail.
IDLE_SYNC_S: Final = 0.5

# How often an idle store checks the free space: others write to its disk too. One system call.
IDLE_LOOK_S: Final = 2.0

_log: Final = logging.getLogger(__name__)


class SegmentWriter:
    """Writes and syncs groups of entries, one group at a time."""

    in_flight_max: Final = 1

    def __init__(
        self,
        disk: Disk,
        directory: Path,
        watermark: Watermark,
        *,
        store_id: bytes,
        seed: int,
        segment_bytes: int,
        base: int,
        tail: int,
        room: Room,
        room_changed: Callable[[str | None], None],
        timings: StoreTimings,
    ) -> None:
        self.name = f"store {directory}"
        self._disk = disk
        self._directory = directory
        self._watermark = watermark
        self._store_id = store_id
        self._seed = seed
        self._segment_bytes = segment_bytes
        self._room = room
        self._room_changed = room_changed
        self._timings = timings
        self._base = base
        self._fd = disk.open(segment.segment_path(directory, base), writable=True)
        self.reserved_bytes = disk.size(self._fd)
        """The size of the current file."""
        self.durable = tail
        self.gate = threading.Lock()
        """Holding it keeps `durable` in place: no commit is confirmed meanwhile."""
        self._rolling = False

    @property
    def idle_s(self) -> float:
        """How long the thread may wait before it checks the free space and syncs the watermark."""
        is_restless = self._watermark.unsynced or self._room.is_short
        return IDLE_SYNC_S if is_restless else IDLE_LOOK_S

    def fitting(self, waiting: list[PendingEntry], in_flight: int) -> int:
        """Those of one segment; usually all of them."""
        base = waiting[0].base
        if waiting[-1].base == base:
            return len(waiting)
        return next(i for i, entry in enumerate(waiting) if entry.base != base)

    def rest(self) -> None:
        """Check the free space, and make the watermark durable."""
        self._look()
        self._sync_watermark()

    def close(self) -> None:
        """Make the watermark durable and close the file."""
        self._sync_watermark()
        self._close_file()

    def _look(self) -> None:
        if not self._room.look(time.monotonic(), self.durable):
            return
        shortage = self._room.describe() if self._room.is_short else None
        _log.warning("%s: %s", self._directory, shortage or "there is room on the disk again")
        self._room_changed(shortage)

    # --- committing -------------------------------------------------------------------------

    def begin(self, group: list[PendingEntry]) -> None:
        """Write the group; on a full disk use the reserve."""
        self._look()
        try:
            self._write(group)
        except OSError as error:
            if not is_full(error) or not self._room.give_up():
                raise
            self._write(group)

    def finish(self, group: list[PendingEntry]) -> bool:
        """Sync it; a full disk may show only now."""
        begun_s = time.monotonic()
        try:
            self._sync(group)
        except OSError as error:
            if not is_full(error) or not self._room.give_up():
                raise
            self._write(group)
            self._sync(group)
        self._timings.sync.observe(time.monotonic() - begun_s)
        return True

    def interrupt(self) -> None:
        """A sync is not interrupted: nothing is written concurrently."""

    def _write(self, group: list[PendingEntry]) -> None:
        first = group[0]
        if first.base != self._base:
            self._roll(first.base, group[-1].end - first.base)
        elif group[-1].end - first.base > self.reserved_bytes:
            self._reserve(group[-1].end - first.base)
        durable = self.durable
        parts: list[bytes] = []
        for entry in group:
            payload = entry.payload
            parts.append(
                pack_header(
                    self._seed, entry.position, durable, payload.length, payload.count, payload.crc
                )
            )
            parts += payload.parts
        segment.write_all(self._disk, self._fd, parts, first.position - first.base)

    def _sync(self, group: list[PendingEntry]) -> None:
        self._disk.sync(self._fd)
        self._advance(group[-1].end)

    def _reserve(self, needed_bytes: int) -> None:
        """Reserve space for this much of the segment, and some more."""
        size = segment.reservation(needed_bytes, self._segment_bytes)
        self._disk.allocate(self._fd, size)
        self.reserved_bytes = size

    def _advance(self, durable: int) -> None:
        with self.gate:
            self.durable = durable
            self._watermark.advance(durable)

    def _roll(self, base: int, needed_bytes: int) -> None:
        """Begin the next segment; everything before it is durable by now."""
        assert base == self.durable, "a segment began before the previous one was durable"
        self._rolling = True
        self._disk.truncate(self._fd, base - self._base)
        # The log has filled a segment: the next one will be needed too.
        wanted = max(needed_bytes, min(segment.RESERVE_STEP_BYTES_MAX, self._segment_bytes))
        size = segment.reservation(wanted, self._segment_bytes)
        fd = segment.make_segment(self._disk, self._directory, self._store_id, base, size)
        self._close_file()
        self._fd = fd
        self.reserved_bytes = size
        self._base = base
        self._rolling = False

    # --- after a failure --------------------------------------------------------------------

    def withdraw(self) -> None:
        """As far as the disk allows now; the probe does it again, reliably."""
        if self._rolling or self._fd < 0:
            return  # then nothing was written, or the new file is created again
        end = max(self.durable, self._base + segment.SEGMENT_HEADER_BYTES)
        with contextlib.suppress(OSError):
            self._disk.truncate(self._fd, end - self._base)

    def is_refused(self, error: Exception) -> bool:
        """The file has no other writer, and what was refused is cut from it."""
        return True

    def restore(self) -> tuple[int, int]:
        """Cut what was not durable and prove that a synced write works.

        The cut is made in the file, not only in memory: a refused entry may be there completely,
        and must not be found by a recovery once the log has grown up to it again. The file is
        opened again, since after a failed sync the old descriptor may report success for pages that
        were dropped.
        """
        disk = self._disk
        self._close_file()
        self._fd = disk.open(segment.segment_path(self._directory, self._base), writable=True)
        if self._rolling:  # otherwise a full disk would seem healthy until the next append
            self._roll(self.durable, 0)
        position = max(self.durable, self._base + segment.SEGMENT_HEADER_BYTES)
        offset = position - self._base
        disk.truncate(self._fd, offset)
        self._reserve(offset + ENTRY_HEADER_BYTES)
        segment.write_all(
            disk, self._fd, [pack_header(self._seed, position, self.durable, 0, 0, 0)], offset
        )
        disk.sync(self._fd)
        self._advance(position + ENTRY_HEADER_BYTES)
        return self._base, self.durable

    def _sync_watermark(self) -> None:
        try:
            self._watermark.sync()
        except OSError as error:
            # The log itself is durable; the next commit shows whether the disk is gone.
            _log.warning("%s: the watermark could not be synced: %r", self._directory, error)

    def _close_file(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            try:
                self._disk.close(fd)
            except OSError as error:
                _log.info("%s: closing a segment: %r", self._directory, error)
