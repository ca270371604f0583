"""The segments of a store in a directory, as compaction sees them.

Owns the reading of all bodies of a segment file or a compacted one, in slices, and the deletion
of files. Runs on the compactor's thread. Made by the store.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from partibus.store.compaction.compacted_file import CompactedFileWriter, read_index
from partibus.store.compaction.survivors import Bodies, Source
from partibus.store.files.disk import Disk
from partibus.store.files.segment import SEGMENT_HEADER_BYTES
from partibus.store.reading import Readers
from partibus.store.record import (
    BODY_CRC_BYTES,
    ENTRY_HEADER_BYTES,
    ROW_BYTES,
    unpack_header,
    unpack_rows,
)

# Between two pauses at most about this much is read, and at most that much skipped.
SLICE_BYTES: Final = 1 << 20
PASSED_BYTES: Final = 16 << 20

# The size of one read; of a larger entry only the rows and live bodies are read.
WINDOW_BYTES: Final = 64 << 10


class SegmentFiles:
    """The files of one store."""

    def __init__(self, disk: Disk, directory: Path, readers: Readers) -> None:
        self.directory = directory
        self._disk = disk
        self._readers = readers
        self._store_id = b""
        self._seed = 0

    def identify(self, store_id: bytes, seed: int) -> None:
        """Set the id of the store whose files are written."""
        self._store_id = store_id
        self._seed = seed

    def writer(self, sources: list[Source], revision: int) -> CompactedFileWriter:
        """A compacted file."""
        base, end = sources[0].base, sources[-1].end
        return CompactedFileWriter(self._disk, self.directory, self._store_id, base, end, revision)

    def delete(self, names: list[str]) -> None:
        """Delete files that are not needed."""
        for name in names:
            self._disk.remove(self.directory / name)

    def forget(self, names: list[str], then: Callable[[], None]) -> None:
        """Delete files once no earlier request still reads them."""
        self._readers.forget(names, then)

    def bodies(self, source: Source, pause: Callable[[], None]) -> Bodies:
        """All bodies of a file."""
        fd = self._disk.open(self.directory / source.name, writable=False)
        try:
            found = self._kept_bodies if source.is_kept else self._logged_bodies
            yield from found(fd, source, pause)
        finally:
            self._disk.close(fd)

    def _kept_bodies(self, fd: int, source: Source, pause: Callable[[], None]) -> Bodies:
        read_bytes = 0
        for body in read_index(self._disk, self.directory, source.name, self._store_id):
            read_bytes += body.length
            if read_bytes > SLICE_BYTES:
                read_bytes = 0
                pause()
            take = partial(self._disk.read, fd, BODY_CRC_BYTES + body.length, body.offset)
            yield body.position, body.length, take

    def _logged_bodies(self, fd: int, source: Source, pause: Callable[[], None]) -> Bodies:
        """From the rows of each entry; what is not needed is skipped, without reading it.

        The checksum of a whole entry is not checked: the bodies found must add up.
        """
        window = Window(self._disk, fd, source)
        position = source.base + SEGMENT_HEADER_BYTES
        paused_at = position
        while position + ENTRY_HEADER_BYTES <= source.end:
            header = unpack_header(self._seed, window.read(position, ENTRY_HEADER_BYTES), 0)
            if header is None or header.position != position:
                return
            rows_at = position + ENTRY_HEADER_BYTES
            rows = window.read(rows_at, ROW_BYTES * header.count)
            at = rows_at + len(rows) + sum([row[1] for row in unpack_rows(rows)])
            for _, _, length, _ in unpack_rows(rows):
                if length:
                    take = partial(window.read, at, BODY_CRC_BYTES + length)
                    at += BODY_CRC_BYTES + length
                    yield at - length, length, take
            position = rows_at + header.length
            if window.read_bytes > SLICE_BYTES or position - paused_at > PASSED_BYTES:
                window.read_bytes = 0
                paused_at = position
                pause()


@dataclass(eq=False, slots=True)
class Window:
    """A piece of a segment in memory, which moves with the reads."""

    disk: Disk
    fd: int
    source: Source
    _at: int = field(init=False, default=0)
    _data: bytes = field(init=False, default=b"")
    read_bytes: int = field(init=False, default=0)

    def read(self, position: int, length: int) -> bytes:
        """Bytes of the log; fewer when the segment ends before."""
        first = position - self._at
        if first < 0 or first + length > len(self._data):
            wanted = max(length, WINDOW_BYTES)
            wanted = min(wanted, self.source.end - position)
            self._data = self.disk.read(self.fd, wanted, position - self.source.base)
            self._at = position
            self.read_bytes += len(self._data)
            first = 0
        return self._data[first : first + length]
