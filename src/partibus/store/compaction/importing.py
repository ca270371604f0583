"""Writes a new store with the contents of another: the same positions, without dead data.

Owns the plan of a copy, the stretches of the log that become one compacted file or table each, and
the writing of a directory: compacted files, pages, a checkpoint that covers all of it, and an empty
segment at the end. Positions stay the same, so no reference to a body has to change. It is not a
valid store before `finish` has returned. Must never read the source. Called by `server.copying`;
the same for a database is `postgres.importing`.
"""

import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from partibus.store.compaction.compacted_file import CompactedFileWriter
from partibus.store.files.checkpoint import Checkpoint, write_checkpoint
from partibus.store.files.disk import OsDisk
from partibus.store.files.lock import DirectoryLock
from partibus.store.files.segment import (
    SEGMENT_BYTES,
    SEGMENT_HEADER_BYTES,
    make_segment,
    reservation,
)
from partibus.store.files.watermark import Watermark
from partibus.store.interface import Ref
from partibus.store.pages import PageIndex, PageSource
from partibus.store.record import BODY_CRC_BYTES, crc32c

STRETCH_BYTES: Final = SEGMENT_BYTES
"""Bodies of one compacted file or table, as compaction makes them."""
FIRST_GENERATION: Final = 1

Bodies = Iterable[tuple[int, bytes]]
"""Positions, which ascend, and bodies."""


class Stretch(NamedTuple):
    """A part of the log and the bodies in it, in the order of the log."""

    base: int
    end: int
    refs: list[Ref]


class Snapshot(NamedTuple):
    """The states of all fragments at one position, with the pages that they refer to."""

    position: int
    states: dict[int, bytes]
    pages: dict[int, PageSource]


class LaneImport(Protocol):
    """A store being filled: all stretches, then the snapshot."""

    def write(self, stretch: Stretch, bodies: Bodies) -> None: ...

    def finish(self, snapshot: Snapshot) -> None: ...

    def close(self) -> None: ...


def stretches(refs: Iterable[Ref], end: int, most_bytes: int = STRETCH_BYTES) -> Iterator[Stretch]:
    """Divide the needed bodies into stretches; each body once, however many messages share it."""
    some: list[Ref] = []
    size = 0
    for ref in sorted({ref for ref in refs if ref[1]}):
        if size >= most_bytes:
            yield Stretch(_place(some[0]), _place(ref), some)
            some, size = [], 0
        some.append(ref)
        size += ref[1]
    if some:
        yield Stretch(_place(some[0]), end, some)


def with_checksum(body: bytes) -> bytes:
    """A body as it is in a log."""
    return crc32c(body).to_bytes(BODY_CRC_BYTES, "little") + body


def _place(ref: Ref) -> int:
    """The position of a body's checksum."""
    return ref[0] - BODY_CRC_BYTES


class DirectoryImport:
    """An empty directory that becomes a store."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._disk = OsDisk()
        self._store_id = uuid.uuid4().bytes
        self._lock = DirectoryLock(directory)

    def write(self, stretch: Stretch, bodies: Bodies) -> None:
        """A compacted file."""
        place = (self._directory, self._store_id, stretch.base, stretch.end)
        file = CompactedFileWriter(self._disk, *place, FIRST_GENERATION)
        try:
            for position, body in bodies:
                file.add(position, with_checksum(body))
            file.finish()
        except BaseException:
            file.close()
            raise

    def finish(self, snapshot: Snapshot) -> None:
        """Make it a valid store, which continues after the position of the snapshot."""
        disk, position = self._disk, snapshot.position
        size = reservation(SEGMENT_HEADER_BYTES, SEGMENT_BYTES)
        disk.close(make_segment(disk, self._directory, self._store_id, position, size))
        index = PageIndex(disk, self._directory)
        pages = index.write(snapshot.pages, snapshot.pages, self._store_id)
        checkpoint = Checkpoint(self._store_id, position, position, snapshot.states)
        checkpoint.places = pages.places
        write_checkpoint(disk, self._directory, checkpoint)
        end = position + SEGMENT_HEADER_BYTES
        Watermark(disk, self._directory, self._store_id, end).close()

    def close(self) -> None:
        """Release the directory."""
        self._lock.release()
