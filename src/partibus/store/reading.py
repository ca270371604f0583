"""Reading bodies: many references, few system calls, every byte verified.

Owns the coalescing of neighbouring bodies into runs and the check of each body against the CRC-32C
before it. Planning needs the segment table and so happens on the loop thread; reading a run happens
there too (from memory only) or on the reader thread.
"""

import errno
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from partibus.domain.errors import BusError, StoreCorrupt, StoreUnavailable
from partibus.store.callbacks import call_back_read
from partibus.store.files.disk import READ_NOWAIT, Disk
from partibus.store.files.segment import OpenSegments
from partibus.store.interface import Notify, ReadDone, Ref
from partibus.store.record import BODY_CRC_BYTES, LARGE_BODY_BYTES, crc32c
from partibus.store.table import SegmentTable
from partibus.store.worker import Worker

# Between two bodies of one batch are 4 bytes, between two batches the rows and metas of the
# second: reading over 16 KiB costs less than a second system call.
RUN_GAP_BYTES_MAX: Final = 16 << 10

# A larger run would block the loop for too long (about 100 us).
RUN_BYTES_MAX: Final = 1 << 20

_unpack_crc: Final = struct.Struct("<I").unpack_from


class Run:
    """Neighbouring bodies of one segment, refs[first:last], read by one call."""

    __slots__ = ("end", "first", "last", "name", "offset", "start")

    def __init__(self, name: str, offset: int, start: int, first: int) -> None:
        self.name = name
        self.offset = offset
        """The file offset of the log position `start`."""
        self.start = start
        self.first = first
        self.end = 0
        self.last = 0


def plan_runs(table: SegmentTable, refs: list[Ref]) -> list[Run]:
    """Group the references, in the order given, into runs."""
    runs: list[Run] = []
    run: Run | None = None
    end = 0
    limit = -1
    index = 0
    for position, length in refs:
        gap = position - end
        if run is None or gap < 0 or gap > RUN_GAP_BYTES_MAX or position + length > limit:
            if run is not None:
                run.end = end
                run.last = index
            segment = table.segment_at(position)
            start = position - BODY_CRC_BYTES
            offset, file_limit = segment.stretch(start)
            if offset < 0:
                raise table.missing(position)
            run = Run(segment.name, offset, start, index)
            runs.append(run)
            limit = min(file_limit, start + RUN_BYTES_MAX)
        end = position + length
        index += 1
    if run is not None:
        run.end = end
        run.last = index
    return runs


def run_within(refs: list[Ref], first: int, start: int, end: int) -> int:
    """The index after the references from `first` on that are between two log positions."""
    index = first
    while index < len(refs):
        position, length = refs[index]
        if position - BODY_CRC_BYTES < start or position + length > end:
            break
        index += 1
    return index


def take_bodies(
    data: bytes, start: int, refs: list[Ref], first: int, last: int, bodies: list[bytes]
) -> int:
    """Copy the bodies refs[first:last] of a run out of the log from `start` on, checking each;
    returns the index of the first that fails its checksum, or -1. The data contains the whole
    run."""
    for index in range(first, last):
        position, length = refs[index]
        offset = position - start
        body = data[offset : offset + length]
        if crc32c(body) != _unpack_crc(data, offset - BODY_CRC_BYTES)[0]:
            return index
        bodies.append(body)
    return -1


class BodyReader:
    """Reads runs with its own buffer and descriptors; one per thread."""

    __slots__ = ("_buffer", "_directory", "_disk", "_nowait", "segments")

    def __init__(self, disk: Disk, directory: Path) -> None:
        self._disk = disk
        self._directory = directory
        self._buffer = bytearray()
        self._nowait = READ_NOWAIT
        self.segments = OpenSegments(disk, directory)

    def read_now(self, refs: list[Ref], runs: list[Run]) -> list[bytes] | None:
        """The bodies, or None when one of them is not in memory."""
        bodies: list[bytes] = []
        for run in runs:
            length = run.end - run.start
            try:
                read = self._read_cached(run, length)
            except BlockingIOError:
                return None
            except OSError as error:
                raise self._failed(run, error) from error
            if read < length:
                return None  # the rest is on disk, or is missing: the slow path finds out
            self._take(refs, run, bodies)
        return bodies

    def read(self, refs: list[Ref], runs: list[Run]) -> list[bytes]:
        """The bodies, waiting for the disk."""
        bodies: list[bytes] = []
        for run in runs:
            try:
                self._read_whole(run, run.end - run.start)
            except OSError as error:
                raise self._failed(run, error) from error
            self._take(refs, run, bodies)
        return bodies

    def _view(self, length: int) -> memoryview:
        """The first `length` bytes of the buffer; a huge body gets a temporary one."""
        if length > len(self._buffer):
            self._buffer = bytearray(max(length, RUN_BYTES_MAX))
        return memoryview(self._buffer)[:length]

    def _read_cached(self, run: Run, length: int) -> int:
        fd = self.segments.descriptor(run.name)
        view = self._view(length)
        offset = run.offset
        try:
            return self._disk.read_into(fd, view, offset, self._nowait)
        except OSError as error:
            if error.errno != errno.EOPNOTSUPP or not self._nowait:
                raise
        self._nowait = 0  # not supported by this file system: accept its reads as they come
        return self._disk.read_into(fd, view, offset, 0)

    def _read_whole(self, run: Run, length: int) -> None:
        fd = self.segments.descriptor(run.name)
        view = self._view(length)
        offset = run.offset
        read = 0
        while read < length:
            count = self._disk.read_into(fd, view[read:], offset + read, 0)
            if count == 0:
                raise StoreCorrupt.at(
                    self._directory / run.name, offset + read, "the file ends before the body does."
                )
            read += count

    def _take(self, refs: list[Ref], run: Run, bodies: list[bytes]) -> None:
        """Copy the bodies of a run out of the buffer, checking each."""
        start = run.start
        size = run.end - start
        view = memoryview(self._buffer)[:size]
        # Slices of bytes cost less than views, by more than the one copy that they need,
        # unless the bodies are large.
        if size < LARGE_BODY_BYTES * (run.last - run.first):
            bad = take_bodies(bytes(view), start, refs, run.first, run.last, bodies)
        else:
            bad = self._take_large(view, refs, run, bodies)
        if bad >= 0:
            position, length = refs[bad]
            raise StoreCorrupt.at(
                self._directory / run.name,
                run.offset + position - start,
                f"a body of {length} bytes fails its checksum.",
            )
        if len(self._buffer) > RUN_BYTES_MAX:
            self._buffer = bytearray()

    def _take_large(self, view: memoryview, refs: list[Ref], run: Run, bodies: list[bytes]) -> int:
        """The index of the first that fails its checksum, or -1."""
        for index in range(run.first, run.last):
            position, length = refs[index]
            offset = position - run.start
            body = bytes(view[offset : offset + length])
            if crc32c(body) != _unpack_crc(view, offset - BODY_CRC_BYTES)[0]:
                return index
            bodies.append(body)
        return -1

    def _failed(self, run: Run, error: OSError) -> StoreCorrupt | StoreUnavailable:
        path = self._directory / run.name
        if isinstance(error, FileNotFoundError):
            return StoreCorrupt.at(path, 0, "the segment is missing.")
        return StoreUnavailable(f"{path} cannot be read: {error.strerror or error}. Try again.")


class Readers:
    """Both ways to read the bodies of a store: at once from memory, or on a thread.

    The thread has its own descriptors and buffer and starts with the first read.
    """

    __slots__ = ("_cached", "_notify", "_patient", "_table", "_worker")

    def __init__(self, disk: Disk, directory: Path, table: SegmentTable, notify: Notify) -> None:
        self._table = table
        self._notify = notify
        self._cached = BodyReader(disk, directory)
        self._patient = BodyReader(disk, directory)
        self._worker = Worker(f"store-read-{directory.name}")

    def read_now(self, refs: list[Ref]) -> list[bytes] | None:
        """The bodies when all of them are in memory."""
        return self._cached.read_now(refs, plan_runs(self._table, refs))

    def read(self, refs: list[Ref], done: ReadDone) -> None:
        """The bodies from the thread; they are retained until the callback, so their files stay."""
        try:
            runs = plan_runs(self._table, refs)
        except BusError as error:
            self._notify(partial(call_back_read, done, error))
            return
        for position, _ in refs:
            self._table.hold(position)
        if not self._worker.submit(partial(self._read_patiently, refs, runs, done)):
            self._notify(partial(self._was_read, refs, StoreUnavailable(), done))

    def forget(self, names: list[str], then: Callable[[], None] | None = None) -> None:
        """Close descriptors of files that were deleted or cut; `then` runs, on any thread, when no
        earlier request still reads them."""
        self._cached.segments.forget(names)
        if self._worker.started and self._worker.submit(
            partial(self._forget_patiently, names, then)
        ):
            return
        if then is not None:
            then()

    def _forget_patiently(self, names: list[str], then: Callable[[], None] | None) -> None:
        self._patient.segments.forget(names)
        if then is not None:
            then()

    def close(self) -> None:
        """Answer pending requests, then close all descriptors."""
        self._worker.close()
        self._cached.segments.close()
        self._patient.segments.close()

    def _read_patiently(self, refs: list[Ref], runs: list[Run], done: ReadDone) -> None:
        answer: list[bytes] | BusError
        try:
            answer = self._patient.read(refs, runs)
        except BusError as error:
            answer = error
        except Exception as error:
            answer = StoreUnavailable(f"Stored messages cannot be read: {error!r}.")
        self._notify(partial(self._was_read, refs, answer, done))

    def _was_read(self, refs: list[Ref], answer: list[bytes] | BusError, done: ReadDone) -> None:
        for position, _ in refs:
            self._table.let_go(position)
        call_back_read(done, answer)
