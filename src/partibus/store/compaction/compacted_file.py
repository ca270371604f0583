"""The compacted file: the live bodies of a stretch of the log, and their positions.

Owns the file's name and layout: header, bodies after their checksums as in a segment, and an index
of their log positions. Positions stay the same, so no reference to a body has to change. Written by
the compactor, read by the inventory at the start and by the compactor. Layout:
docs/internals/store-format.md.
"""

import re
import struct
from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from partibus.domain.errors import StoreCorrupt
from partibus.store.files.disk import Disk
from partibus.store.files.segment import write_all
from partibus.store.record import BODY_CRC_BYTES, crc32c
from partibus.store.table import Extents, Segment

KEPT_MAGIC: Final = b"PARTIKPT"
KEPT_VERSION: Final = 1
KEPT_SUFFIX: Final = ".kept"
KEPT_HEADER_BYTES: Final = 80
INDEX_ROW_BYTES: Final = 12

# Data is written in pieces of this size and synced piece by piece, so that no sync of the log has
# to wait for more than one of them.
WRITE_BYTES: Final = 4 << 20

_HEADER: Final = struct.Struct("<8sHHIQQ16sQQI")
_CRC: Final = struct.Struct("<I")
_PADDING: Final = bytes(KEPT_HEADER_BYTES - _HEADER.size - _CRC.size)
_NAME: Final = re.compile(r"([0-9a-f]{16})-([0-9a-f]{16})\.([0-9a-f]{4,8})\.kept")


def kept_name(base: int, end: int, revision: int) -> str:
    """The name of the file with the remains of [base, end).

    The revision makes the name new whenever a stretch is compacted again, and says which of two
    files is the later one.
    """
    return f"{base:016x}-{end:016x}.{revision:04x}{KEPT_SUFFIX}"


def parse_kept_name(directory: Path, name: str) -> tuple[int, int, int]:
    """Base, end and revision; StoreCorrupt when it is not such a name."""
    match = _NAME.fullmatch(name)
    if match is None:
        raise StoreCorrupt.at(
            directory / name,
            None,
            "this is not a valid name for a file of a store; move the file elsewhere.",
        )
    return int(match[1], 16), int(match[2], 16), int(match[3], 16)


@dataclass(eq=False, slots=True)
class CompactedBody:
    """A body in a compacted file."""

    position: int
    length: int
    offset: int
    """Where its checksum is in the file."""


@dataclass(eq=False)
class CompactedFileWriter:
    """Writes one compacted file; it has its name when `finish` returns."""

    disk: Disk
    directory: Path
    store_id: bytes
    base: int
    end: int
    revision: int

    def __post_init__(self) -> None:
        self.name = kept_name(self.base, self.end, self.revision)
        self._beside = self.directory / f"{self.name}.tmp"
        self._fd = self.disk.open(self._beside, writable=True, create=True)
        self._parts: list[bytes] = []
        self._waiting_bytes = 0
        self._offset = KEPT_HEADER_BYTES
        self._positions = array("Q")
        self._lengths = array("I")
        self.extents = Extents()
        self.body_bytes = 0
        self.file_bytes = 0

    def add(self, position: int, sealed_body: bytes) -> None:
        """A body after its checksum; positions ascend."""
        length = len(sealed_body) - BODY_CRC_BYTES
        at = self._offset + self._waiting_bytes
        self.extents.add(position - BODY_CRC_BYTES, at, len(sealed_body))
        self._positions.append(position)
        self._lengths.append(length)
        self._parts.append(sealed_body)
        self._waiting_bytes += len(sealed_body)
        self.body_bytes += length
        if self._waiting_bytes >= WRITE_BYTES:
            self.flush()

    def flush(self) -> None:
        """Make pending data durable."""
        if self._parts:
            write_all(self.disk, self._fd, [b"".join(self._parts)], self._offset)
            self.disk.sync(self._fd)
            self._offset += self._waiting_bytes
            self._parts = []
            self._waiting_bytes = 0

    def finish(self) -> None:
        """Index and header, durable, under the file's name."""
        self.flush()
        index = _pack_index(self._positions, self._lengths)
        head = _HEADER.pack(
            KEPT_MAGIC,
            KEPT_VERSION,
            0,
            KEPT_HEADER_BYTES,
            self.base,
            self.end,
            self.store_id,
            self._offset,
            len(self._positions),
            crc32c(index),
        )
        write_all(self.disk, self._fd, [index], self._offset)
        write_all(self.disk, self._fd, [head + _CRC.pack(crc32c(head)) + _PADDING], 0)
        self.disk.sync(self._fd)
        self.close()
        self.disk.replace(self._beside, self.directory / self.name)
        self.disk.sync_directory(self.directory)
        self.file_bytes = self._offset + len(index)

    def close(self) -> None:
        """Close the descriptor."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            self.disk.close(fd)

    def drop(self) -> None:
        """Discard the file."""
        self.close()
        self.disk.remove(self._beside)


def _pack_index(positions: "array[int]", lengths: "array[int]") -> bytes:
    """All positions, then all lengths, little-endian."""
    return struct.pack(f"<{len(positions)}Q", *positions) + struct.pack(
        f"<{len(lengths)}I", *lengths
    )


def read_index(disk: Disk, directory: Path, name: str, store_id: bytes) -> list[CompactedBody]:
    """The bodies of a compacted file in the order of the log; StoreCorrupt when it is damaged."""
    path = directory / name
    fd = disk.open(path, writable=False)
    try:
        size = disk.size(fd)
        head = disk.read(fd, KEPT_HEADER_BYTES, 0)
        index_at, count, index_crc = _check_header(path, head, store_id)
        index = disk.read(fd, max(0, size - index_at), index_at)
    finally:
        disk.close(fd)
    if len(index) != count * INDEX_ROW_BYTES or crc32c(index) != index_crc:
        raise StoreCorrupt.at(path, index_at, "the index fails its checksum.")
    positions = struct.unpack_from(f"<{count}Q", index)
    lengths = struct.unpack_from(f"<{count}I", index, 8 * count)
    bodies: list[CompactedBody] = []
    offset = KEPT_HEADER_BYTES
    for position, length in zip(positions, lengths, strict=True):
        bodies.append(CompactedBody(position, length, offset))
        offset += BODY_CRC_BYTES + length
    if offset != index_at:
        raise StoreCorrupt.at(path, index_at, "the lengths of the bodies do not add up.")
    return bodies


def _check_header(path: Path, data: bytes, store_id: bytes) -> tuple[int, int, int]:
    """Offset, count and checksum of the index."""
    if len(data) < KEPT_HEADER_BYTES or not data.startswith(KEPT_MAGIC):
        raise StoreCorrupt.at(path, 0, "not a compacted file of Partibus.")
    if crc32c(data[: _HEADER.size]) != _CRC.unpack_from(data, _HEADER.size)[0]:
        raise StoreCorrupt.at(path, 0, "the header of the file fails its checksum.")
    _, version, _, _, base, end, own_id, index_at, count, index_crc = _HEADER.unpack_from(data)
    if version != KEPT_VERSION:
        raise StoreCorrupt.at(
            path, 8, f"compacted format {version}; this release reads {KEPT_VERSION}."
        )
    if (base, end) != parse_kept_name(path.parent, path.name)[:2]:
        raise StoreCorrupt.at(path, 16, f"the file was renamed; it belongs to {base:#x}.")
    if own_id != store_id:
        raise StoreCorrupt.at(
            path, 32, f"the file belongs to store {own_id.hex()}, this one is {store_id.hex()}."
        )
    return index_at, count, index_crc


def load_kept(disk: Disk, directory: Path, name: str, store_id: bytes) -> Segment:
    """A compacted file as the table represents it; nothing in it counts as live yet."""
    base, end, revision = parse_kept_name(directory, name)
    bodies = read_index(disk, directory, name, store_id)
    extents = Extents()
    for body in bodies:
        extents.add(body.position - BODY_CRC_BYTES, body.offset, BODY_CRC_BYTES + body.length)
    body_bytes = sum(body.length for body in bodies)
    overhead = KEPT_HEADER_BYTES + len(bodies) * (BODY_CRC_BYTES + INDEX_ROW_BYTES)
    segment = kept_segment(base, end, revision, extents, body_bytes, overhead + body_bytes)
    segment.counted_from = end
    return segment


def kept_segment(
    base: int, end: int, revision: int, extents: Extents, body_bytes: int, file_bytes: int
) -> Segment:
    """The table's entry for a compacted file in which every body is needed once."""
    segment = Segment(base, end, base)
    segment.name = kept_name(base, end, revision)
    segment.revision = revision
    segment.extents = extents
    segment.body_bytes = body_bytes
    segment.file_bytes = file_bytes
    # Its stretch of the log may be longer than 4 GiB.
    segment.retained = array("Q")
    segment.released = array("Q")
    return segment


def is_intact(sealed_body: bytes) -> bool:
    """Whether a body matches its checksum."""
    (expected,) = _CRC.unpack_from(sealed_body)
    return bool(crc32c(sealed_body[BODY_CRC_BYTES:]) == expected)
