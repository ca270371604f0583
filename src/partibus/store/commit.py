"""The commit thread: everything that waits is written and synced at once.

Owns the segment that is written to, the durable position, and what happens when the disk
fails: all that waits is refused, then the tail is cut back to the last durable position
and a synced write must succeed before appends are taken again. Never runs a caller's
callback: it hands its news to the owner on the loop thread. Started by the store.
"""

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from partibus.domain.errors import StoreUnavailable
from partibus.store.disk import Disk
from partibus.store.interface import Done, Notify, StoreTimings
from partibus.store.record import ENTRY_HEADER_BYTES, Payload, pack_header
from partibus.store.room import Room, is_full
from partibus.store.segment import (
    RESERVE_STEP_BYTES_MAX,
    SEGMENT_HEADER_BYTES,
    make_segment,
    reservation,
    segment_path,
    write_all,
)
from partibus.store.watermark import Watermark

# How often a store that is down is tried again: soon enough that a client's retries meet
# it up, seldom enough not to burden a disk that is being repaired.
PROBE_INTERVAL_S: Final = 1.0

# When nothing was appended for this long, the watermark is synced too: the time for which a
# loss of power could leave the last commits looking like a torn tail if they were damaged.
IDLE_SYNC_S: Final = 0.5

# How often a store at rest asks what is free: others write to its disk too. One system call.
IDLE_LOOK_S: Final = 2.0

_log: Final = logging.getLogger(__name__)


class PendingEntry:
    """An encoded batch with its place in the log, on its way to the disk."""

    __slots__ = ("base", "begun_s", "done", "end", "payload", "position")

    def __init__(self, base: int, position: int, payload: Payload, done: Done) -> None:
        self.base = base
        self.position = position
        self.payload = payload
        self.end = position + ENTRY_HEADER_BYTES + payload.length
        self.done = done
        self.begun_s = time.monotonic()


class CommitOwner(Protocol):
    """Receives commits, on the loop thread, in their order."""

    def committed(self, entries: list[PendingEntry], elapsed_s: float) -> None:
        """These are durable."""
        ...

    def failed(self, entries: list[PendingEntry], error: StoreUnavailable) -> None:
        """These are not, and nothing is taken until `restored`."""
        ...

    def restored(self, base: int, tail: int) -> None:
        """The log continues at `tail` of segment `base`; call `resume` to start."""
        ...

    def room_changed(self, shortage: str | None) -> None:
        """There is too little room on the disk to take messages, or enough again."""
        ...


class CommitThread:
    """Writes entries in the order given; `submit`, `resume` and `close` are the owner's."""

    def __init__(
        self,
        disk: Disk,
        directory: Path,
        owner: CommitOwner,
        notify: Notify,
        watermark: Watermark,
        *,
        store_id: bytes,
        seed: int,
        segment_bytes: int,
        base: int,
        tail: int,
        room: Room,
        timings: StoreTimings,
        probe_interval_s: float = PROBE_INTERVAL_S,
    ) -> None:
        self._disk = disk
        self._room = room
        self._timings = timings
        self._directory = directory
        self._owner = owner
        self._notify = notify
        self._watermark = watermark
        self._store_id = store_id
        self._seed = seed
        self._segment_bytes = segment_bytes
        self._probe_interval_s = probe_interval_s
        self._base = base
        self._fd = disk.open(segment_path(directory, base), writable=True)
        self.reserved_bytes = disk.size(self._fd)
        """The size of the file that is written to."""
        self.durable = tail
        self.gate = threading.Lock()
        """Its holder keeps `durable` in place: no commit is confirmed meanwhile."""
        self._waiting: list[PendingEntry] = []
        self._rolling = False
        self._refusing = False
        self._closing = False
        self._wake = threading.Condition(threading.Lock())
        self._thread = threading.Thread(
            target=self._run, name=f"store-commit-{directory.name}", daemon=True
        )

    def start(self) -> None:
        """Begin to take entries."""
        self._thread.start()

    def submit(self, entry: PendingEntry) -> bool:
        """Take an entry; False when the store is failing and it was not taken."""
        with self._wake:
            if self._refusing:
                return False
            self._waiting.append(entry)
            if len(self._waiting) == 1:
                self._wake.notify()
        return True

    def resume(self) -> None:
        """Take entries again, now that every failure was told."""
        with self._wake:
            self._refusing = False

    def close(self) -> None:
        """Commit what waits, then end."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        if self._thread.is_alive():
            self._thread.join()
        with self._wake:
            self._refusing = True
        self._sync_watermark()
        self._close_file()

    def _run(self) -> None:
        while (group := self._take()) is not None:
            started = time.monotonic()
            if self._room.look(started, self.durable):
                self._tell_room()
            if not group:
                self._sync_watermark()
                continue
            try:
                self._commit_somehow(group)
            except Exception as error:
                self._fail(group, error)
                self._restore_until_done()
            else:
                self._tell(partial(self._owner.committed, group, time.monotonic() - started))

    def _take(self) -> list[PendingEntry] | None:
        """The entries of one segment that wait; [] after an idle while, None at the end."""
        with self._wake:
            if not self._waiting and not self._closing:
                is_restless = self._watermark.unsynced or self._room.is_short
                self._wake.wait(IDLE_SYNC_S if is_restless else IDLE_LOOK_S)
            waiting = self._waiting
            if not waiting:
                return None if self._closing else []
            base = waiting[0].base
            count = len(waiting)
            if waiting[-1].base != base:
                count = next(i for i, entry in enumerate(waiting) if entry.base != base)
            self._waiting = waiting[count:]
            return waiting[:count]

    def _tell_room(self) -> None:
        shortage = self._room.describe() if self._room.is_short else None
        _log.warning("%s: %s", self._directory, shortage or "there is room on the disk again")
        self._tell(partial(self._owner.room_changed, shortage))

    def _commit_somehow(self, group: list[PendingEntry]) -> None:
        """Commit; on a full disk at the cost of the reserve."""
        try:
            self._commit(group)
        except OSError as error:
            if not is_full(error) or not self._room.give_up():
                raise
            self._commit(group)

    def _commit(self, group: list[PendingEntry]) -> None:
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
        write_all(self._disk, self._fd, parts, first.position - first.base)
        written_s = time.monotonic()
        self._disk.sync(self._fd)
        self._advance(group[-1].end)
        synced_s = time.monotonic()
        self._timings.sync.observe(synced_s - written_s)
        self._timings.append.observe(synced_s - first.begun_s)

    def _reserve(self, needed_bytes: int) -> None:
        """Reserve space for this much of the segment, and some more."""
        size = reservation(needed_bytes, self._segment_bytes)
        self._disk.allocate(self._fd, size)
        self.reserved_bytes = size

    def _advance(self, durable: int) -> None:
        with self.gate:
            self.durable = durable
            self._watermark.advance(durable)

    def _roll(self, base: int, needed_bytes: int) -> None:
        """Begin the next segment; everything before it is durable by now."""
        assert base == self.durable, "a segment began before the one before it was durable"
        self._rolling = True
        self._disk.truncate(self._fd, base - self._base)
        # The log has filled a segment: the next one will be wanted too.
        wanted = max(needed_bytes, min(RESERVE_STEP_BYTES_MAX, self._segment_bytes))
        size = reservation(wanted, self._segment_bytes)
        fd = make_segment(self._disk, self._directory, self._store_id, base, size)
        self._close_file()
        self._fd = fd
        self.reserved_bytes = size
        self._base = base
        self._rolling = False

    def _fail(self, group: list[PendingEntry], error: Exception) -> None:
        """Refuse all that waits; under the lock, so that refusals stay in order.

        What was written is cut before that: a process that ends now must not leave to the next
        start an entry whose sender was told that it is not stored."""
        _log.error("%s: a commit failed, the store is down: %r", self._directory, error)
        text = f"The store {self._directory} is down: {error}. It is probed; try again."
        self._cut_refused()
        with self._wake:
            self._refusing = True
            entries = group + self._waiting
            self._waiting = []
            self._tell(partial(self._owner.failed, entries, StoreUnavailable(text)))

    def _cut_refused(self) -> None:
        """As far as the disk lets us now; the probe does it again, for good."""
        if self._rolling or self._fd < 0:
            return  # then nothing was written, or the file that was begun is made again
        end = max(self.durable, self._base + SEGMENT_HEADER_BYTES)
        with contextlib.suppress(OSError):
            self._disk.truncate(self._fd, end - self._base)

    def _restore_until_done(self) -> None:
        """Probe until the disk answers, or until the store is closed."""
        while True:
            with self._wake:
                if not self._closing:
                    self._wake.wait(self._probe_interval_s)
                if self._closing:
                    return
            try:
                self._restore()
            except Exception as error:
                _log.info("%s: still down: %r", self._directory, error)
            else:
                _log.warning("%s: the store is up again", self._directory)
                self._tell(partial(self._owner.restored, self._base, self.durable))
                return

    def _restore(self) -> None:
        """Cut what was not durable and prove that a synced write works.

        The cut is real, not only remembered: an entry that was refused may lie there whole,
        and must not be found by a recovery once the log has grown up to it again. The file
        is opened again, since after a failed sync the old descriptor may report success for
        pages that were dropped.
        """
        disk = self._disk
        self._close_file()
        self._fd = disk.open(segment_path(self._directory, self._base), writable=True)
        if self._rolling:  # otherwise a full disk would seem healthy until the next append
            self._roll(self.durable, 0)
        position = max(self.durable, self._base + SEGMENT_HEADER_BYTES)
        offset = position - self._base
        disk.truncate(self._fd, offset)
        self._reserve(offset + ENTRY_HEADER_BYTES)
        write_all(
            disk, self._fd, [pack_header(self._seed, position, self.durable, 0, 0, 0)], offset
        )
        disk.sync(self._fd)
        self._advance(position + ENTRY_HEADER_BYTES)

    def _sync_watermark(self) -> None:
        try:
            self._watermark.sync()
        except OSError as error:
            # The log itself is durable; the next commit finds out whether the disk is gone.
            _log.warning("%s: the watermark could not be synced: %r", self._directory, error)

    def _close_file(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            try:
                self._disk.close(fd)
            except OSError as error:
                _log.info("%s: closing a segment: %r", self._directory, error)

    def _tell(self, news: Callable[[], None]) -> None:
        try:
            self._notify(news)
        except RuntimeError as error:
            # The loop is closed: the process ends without closing its stores.
            _log.warning("%s: no listener is left to notify: %r", self._directory, error)
