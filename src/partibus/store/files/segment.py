"""One file of the log: its name, its header, and how it is created and written.

Owns the segment header, which lets a foreign or misplaced file be recognised, and the
cache of descriptors for reading. Knows nothing of entries. Called by the commit thread
(making, writing), by recovery (checking) and by the readers.
"""

import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from partibus.domain.errors import StoreCorrupt
from partibus.store.files.disk import Disk
from partibus.store.record import crc32c

SEGMENT_MAGIC: Final = b"PARTIBUS"
SEGMENT_VERSION: Final = 1
SEGMENT_SUFFIX: Final = ".seg"
SEGMENT_HEADER_BYTES: Final = 64
SEGMENT_BYTES: Final = 32 << 20
STORE_ID_BYTES: Final = 16

# Space for a segment is reserved in growing steps: a small store takes little, and a busy one is
# rarely delayed. 1, 2, 4, 8, 16 MiB, then 16 MiB more each time.
RESERVE_BYTES_MIN: Final = 1 << 20
RESERVE_STEP_BYTES_MAX: Final = 16 << 20

# IOV_MAX of Linux: the limit of one pwritev.
WRITE_PARTS_MAX: Final = 1024
# What is tried again at once after a short write: copying everything that is left each time would
# have quadratic cost.
WRITE_AGAIN_BYTES_MAX: Final = 1 << 20

# Bodies are read mostly from the few segments around head and tail of the queues; others are
# opened again when needed. 64 leaves room for many stores below a soft limit of 1024.
OPEN_SEGMENTS_MAX: Final = 64

_HEADER: Final = struct.Struct("<8sHHIQ16s")
_CRC: Final = struct.Struct("<I")
_HEADER_PADDING: Final = bytes(SEGMENT_HEADER_BYTES - _HEADER.size - _CRC.size)


def segment_name(base: int) -> str:
    """The name of the file whose first byte is the log position `base`."""
    return f"{base:016x}{SEGMENT_SUFFIX}"


def segment_path(directory: Path, base: int) -> Path:
    """The file whose first byte is the log position `base`."""
    return directory / segment_name(base)


def segment_base(directory: Path, name: str) -> int:
    """The position in a segment's name; StoreCorrupt when it is not such a name."""
    stem = name.removesuffix(SEGMENT_SUFFIX)
    if len(stem) == 16 and not stem.strip("0123456789abcdef"):
        return int(stem, 16)
    raise StoreCorrupt.at(
        directory / name, None, "this is not a valid segment name; move the file elsewhere."
    )


def encode_segment_header(store_id: bytes, base: int) -> bytes:
    """The 64 bytes at the start of a segment."""
    head = _HEADER.pack(SEGMENT_MAGIC, SEGMENT_VERSION, 0, SEGMENT_HEADER_BYTES, base, store_id)
    return head + _CRC.pack(crc32c(head)) + _HEADER_PADDING


def check_segment_header(path: Path, data: bytes, base: int, store_id: bytes) -> None:
    """Raise StoreCorrupt with the reason, unless the header belongs to this store."""
    if len(data) < SEGMENT_HEADER_BYTES or not data.startswith(SEGMENT_MAGIC):
        raise StoreCorrupt.at(path, 0, "not a Partibus segment.")
    magic, version, zero, size, own_base, own_id = _HEADER.unpack_from(data)
    del magic, zero, size
    if crc32c(data[: _HEADER.size]) != _CRC.unpack_from(data, _HEADER.size)[0]:
        raise StoreCorrupt.at(path, 0, "the segment header fails its checksum.")
    if version != SEGMENT_VERSION:
        raise StoreCorrupt.at(
            path, 8, f"segment format {version}; this release reads {SEGMENT_VERSION}."
        )
    if own_base != base:
        raise StoreCorrupt.at(
            path, 16, f"the file was written as position {own_base:#x}; it was renamed."
        )
    if own_id != store_id:
        raise StoreCorrupt.at(
            path, 24, f"the segment belongs to store {own_id.hex()}, this one is {store_id.hex()}."
        )


def header_store_id(data: bytes) -> bytes | None:
    """The store in a valid header, or None; used when nothing else names the store."""
    if len(data) < SEGMENT_HEADER_BYTES or not data.startswith(SEGMENT_MAGIC):
        return None
    if crc32c(data[: _HEADER.size]) != _CRC.unpack_from(data, _HEADER.size)[0]:
        return None
    store_id: bytes = _HEADER.unpack_from(data)[5]
    return store_id


def write_all(disk: Disk, fd: int, parts: list[bytes], offset: int) -> None:
    """Write every part, however many there are and however short the writes."""
    for first in range(0, len(parts), WRITE_PARTS_MAX):
        batch = parts[first : first + WRITE_PARTS_MAX]
        wanted = sum(map(len, batch))
        written = disk.write(fd, batch, offset)
        if written < wanted:
            _write_rest(disk, fd, b"".join(batch), written, offset)
        offset += wanted


def _write_rest(disk: Disk, fd: int, data: bytes, written: int, offset: int) -> None:
    """Repeat a short write until all is written or the disk reports an error."""
    while written < len(data):
        piece = data[written : written + WRITE_AGAIN_BYTES_MAX]
        taken = disk.write(fd, [piece], offset + written)
        if taken == 0:
            raise OSError(f"a write of {len(data) - written} bytes took none")
        written += taken


def reservation(needed_bytes: int, segment_bytes: int) -> int:
    """How much of a segment to reserve when `needed` bytes of it are needed."""
    size = RESERVE_BYTES_MIN
    while size < needed_bytes:
        size += min(size, RESERVE_STEP_BYTES_MAX)
    return max(needed_bytes, min(size, segment_bytes))


def make_segment(disk: Disk, directory: Path, store_id: bytes, base: int, length: int) -> int:
    """A new segment with `length` bytes reserved, durable by itself and by its name."""
    fd = disk.open(segment_path(directory, base), writable=True, create=True)
    try:
        disk.allocate(fd, length)
        write_all(disk, fd, [encode_segment_header(store_id, base)], 0)
        disk.sync(fd)
        disk.sync_directory(directory)
    except BaseException:
        disk.close(fd)
        raise
    return fd


@dataclass(eq=False, slots=True)
class OpenSegments:
    """Descriptors for reading, the least recently used closed first; each for one thread."""

    disk: Disk
    directory: Path
    open_max: int = OPEN_SEGMENTS_MAX
    _fds: dict[str, int] = field(init=False, default_factory=dict)

    def descriptor(self, name: str) -> int:
        """The descriptor of a file, which is opened if necessary."""
        fd = self._fds.pop(name, None)
        if fd is None:
            fd = self.disk.open(self.directory / name, writable=False)
            if len(self._fds) >= self.open_max:
                self.disk.close(self._fds.pop(next(iter(self._fds))))
        self._fds[name] = fd  # the most recently used is last
        return fd

    def forget(self, names: list[str]) -> None:
        """Close the descriptors of these files, so that the space of deleted files is freed."""
        for name in names:
            fd = self._fds.pop(name, None)
            if fd is not None:
                self.disk.close(fd)

    def close(self) -> None:
        """Close everything."""
        self.forget(list(self._fds))

    def __len__(self) -> int:
        return len(self._fds)
