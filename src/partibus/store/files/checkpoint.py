"""The checkpoint: the state of every fragment at one position of the log.

Owns the file's layout, its writing (to a temporary name, synced, renamed, the directory synced) and
its reading. Large parts of a state are in pages (`pages`), whose places it lists. Must never look
into a state. Written by the store's housekeeping thread, read by recovery.
"""

import contextlib
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from partibus.domain.errors import StoreCorrupt
from partibus.store.files.disk import Disk
from partibus.store.files.segment import write_all
from partibus.store.pages import Place
from partibus.store.record import crc32c, crc32c_extend

CHECKPOINT_MAGIC: Final = b"PARTICKP"
CHECKPOINT_VERSION: Final = 2
UNPAGED_VERSION: Final = 1
"""Without pages, as written by earlier releases; still read."""
CHECKPOINT_SUFFIX: Final = ".ckpt"

_HEADER: Final = struct.Struct("<8sHHIQQ16s")
_ROW: Final = struct.Struct("<IIQ")
_PAGE_COUNT: Final = struct.Struct("<Q")
_PAGE: Final = struct.Struct("<QQQII")
_CRC: Final = struct.Struct("<I")


@dataclass(eq=False, slots=True)
class Checkpoint:
    """States as of `position`; the log was known durable up to `durable` by then.

    `places` says where the pages are that the states refer to.
    """

    store_id: bytes
    position: int
    durable: int
    states: dict[int, bytes]
    places: dict[int, Place] = field(init=False, default_factory=dict)
    file_bytes: int = field(init=False, default=0)  # known once it is written or read


def checkpoint_path(directory: Path, position: int) -> Path:
    """The file of the checkpoint at a position."""
    return directory / f"{position:016x}{CHECKPOINT_SUFFIX}"


def encode_checkpoint(checkpoint: Checkpoint) -> list[bytes]:
    """The parts of the file, the CRC-32C of all of them last."""
    states = checkpoint.states
    rows = b"".join([_ROW.pack(fragment, 0, len(state)) for fragment, state in states.items()])
    header = _HEADER.pack(
        CHECKPOINT_MAGIC,
        CHECKPOINT_VERSION,
        0,
        len(states),
        checkpoint.position,
        checkpoint.durable,
        checkpoint.store_id,
    )
    places = checkpoint.places
    pages = b"".join([_PAGE.pack(number, *place) for number, place in places.items()])
    parts = [header, rows, _PAGE_COUNT.pack(len(places)), pages, *states.values()]
    crc = 0
    for part in parts:
        crc = crc32c_extend(crc, part)
    parts.append(_CRC.pack(crc))
    return parts


def write_checkpoint(disk: Disk, directory: Path, checkpoint: Checkpoint) -> None:
    """Make the checkpoint durable under its name."""
    prepare_checkpoint(disk, directory, checkpoint)
    name_checkpoint(disk, directory, checkpoint)


def prepare_checkpoint(disk: Disk, directory: Path, checkpoint: Checkpoint) -> None:
    """Write it under a temporary name: it does not count yet."""
    beside = checkpoint_path(directory, checkpoint.position).with_suffix(".tmp")
    parts = encode_checkpoint(checkpoint)
    try:
        fd = disk.open(beside, writable=True, create=True)
        try:
            write_all(disk, fd, parts, 0)
            disk.sync(fd)
        finally:
            disk.close(fd)
    except OSError:
        with contextlib.suppress(OSError):
            disk.remove(beside)  # on a full disk it would take up the missing space
        raise
    checkpoint.file_bytes = sum(map(len, parts))


def name_checkpoint(disk: Disk, directory: Path, checkpoint: Checkpoint) -> None:
    """Rename it into place. When this fails, a recovery may still find it."""
    path = checkpoint_path(directory, checkpoint.position)
    beside = path.with_suffix(".tmp")
    try:
        disk.replace(beside, path)
    except OSError:
        with contextlib.suppress(OSError):
            disk.remove(beside)
        raise
    disk.sync_directory(directory)


def checkpoint_names(names: list[str]) -> list[str]:
    """The checkpoints among the names of a directory, the latest last."""
    return sorted(name for name in names if name.endswith(CHECKPOINT_SUFFIX))


def read_checkpoint(disk: Disk, path: Path) -> Checkpoint:
    """A checkpoint from its file.

    It got its name after it was durable, so any error in it is damage, and falling back to an older
    one would silently lose what was acknowledged since: StoreCorrupt.
    """
    fd = disk.open(path, writable=False)
    try:
        data = disk.read(fd, disk.size(fd), 0)
    finally:
        disk.close(fd)
    end = len(data) - _CRC.size
    if len(data) < _HEADER.size + _CRC.size or not data.startswith(CHECKPOINT_MAGIC):
        raise StoreCorrupt.at(path, 0, "not a Partibus checkpoint.")
    if crc32c(data[:end]) != _CRC.unpack_from(data, end)[0]:
        raise StoreCorrupt.at(path, end, "the checkpoint fails its checksum.")
    _, version, _, count, position, durable, store_id = _HEADER.unpack_from(data)
    if version not in (CHECKPOINT_VERSION, UNPAGED_VERSION):
        raise StoreCorrupt.at(
            path, 8, f"checkpoint format {version}; this release reads {CHECKPOINT_VERSION}."
        )
    if checkpoint_path(path.parent, position) != path:
        raise StoreCorrupt.at(path, 16, f"the file was renamed; it belongs to {position:#x}.")
    rows_end = _HEADER.size + count * _ROW.size
    places: dict[int, Place] = {}
    offset = rows_end
    if version != UNPAGED_VERSION:
        places, offset = _decode_places(path, data, rows_end, end)
    states = _decode_states(path, data, count, offset, end)
    checkpoint = Checkpoint(store_id, position, durable, states)
    checkpoint.places = places
    checkpoint.file_bytes = len(data)
    return checkpoint


def _decode_places(path: Path, data: bytes, offset: int, end: int) -> tuple[dict[int, Place], int]:
    """Where the pages are, and where the states begin."""
    count = _PAGE_COUNT.unpack_from(data, offset)[0] if offset + _PAGE_COUNT.size <= end else -1
    first = offset + _PAGE_COUNT.size
    last = first + count * _PAGE.size
    if count < 0 or last > end:
        raise StoreCorrupt.at(path, offset, "the table of pages is truncated.")
    rows = _PAGE.iter_unpack(data[first:last])
    return {number: Place(*place) for number, *place in rows}, last


def _decode_states(path: Path, data: bytes, count: int, offset: int, end: int) -> dict[int, bytes]:
    rows_end = _HEADER.size + count * _ROW.size
    states: dict[int, bytes] = {}
    for fragment, _, length in _ROW.iter_unpack(data[_HEADER.size : rows_end]):
        states[fragment] = data[offset : offset + length]
        offset += length
    if offset != end or len(states) != count:
        raise StoreCorrupt.at(path, rows_end, "the lengths of the states do not add up.")
    return states
