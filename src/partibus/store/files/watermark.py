"""How far the log is known to be durable, kept beside it.

Owns the file `durable`: two slots, written in turn after every commit, before it is reported. It
distinguishes a torn tail, which was never acknowledged, from damage to data that was. Writing it
costs no system call: the file is mapped, so that it outlives the process, and the commit thread
syncs it when idle, so that it outlives the machine.
"""

import struct
from pathlib import Path
from typing import Final

from partibus.store.files.disk import Disk
from partibus.store.files.segment import STORE_ID_BYTES, write_all
from partibus.store.record import crc32c

WATERMARK_NAME: Final = "durable"
WATERMARK_MAGIC: Final = b"PARTIDUR"
WATERMARK_VERSION: Final = 1
WATERMARK_BYTES: Final = 4096

# A sector apart: a torn sector destroys one slot, not both.
_SLOT_OFFSETS: Final = (0, 512)
_SLOT: Final = struct.Struct("<8sHHIQ16s")
_CRC: Final = struct.Struct("<I")


def _encode_slot(store_id: bytes, position: int) -> bytes:
    head = _SLOT.pack(WATERMARK_MAGIC, WATERMARK_VERSION, 0, 0, position, store_id)
    return head + _CRC.pack(crc32c(head))


def _decode_slot(data: bytes, offset: int) -> tuple[int, bytes] | None:
    end = offset + _SLOT.size
    if len(data) < end + _CRC.size or crc32c(data[offset:end]) != _CRC.unpack_from(data, end)[0]:
        return None
    magic, version, _, _, position, store_id = _SLOT.unpack_from(data, offset)
    if magic != WATERMARK_MAGIC or version != WATERMARK_VERSION:
        return None
    return position, store_id


def encode_watermark(store_id: bytes, position: int) -> bytes:
    """The whole file, with both slots equal."""
    slot = _encode_slot(store_id, position)
    page = slot.ljust(_SLOT_OFFSETS[1], b"\0") + slot
    return page.ljust(WATERMARK_BYTES, b"\0")


class WatermarkFound:
    """The content of the file: `sound` only when both slots were valid; then a tail may be cut."""

    __slots__ = ("position", "sound", "store_id")

    def __init__(self, position: int, store_id: bytes | None, *, sound: bool) -> None:
        self.position = position
        self.store_id = store_id
        self.sound = sound


def read_watermark(disk: Disk, directory: Path) -> WatermarkFound | None:
    """The watermark of a store, or None when it has no such file."""
    try:
        fd = disk.open(directory / WATERMARK_NAME, writable=False)
    except FileNotFoundError:
        return None
    try:
        data = disk.read(fd, WATERMARK_BYTES, 0)
    finally:
        disk.close(fd)
    slots = [_decode_slot(data, offset) for offset in _SLOT_OFFSETS]
    intact = [slot for slot in slots if slot is not None]
    if not intact:
        return WatermarkFound(0, None, sound=False)
    position, store_id = max(intact)
    return WatermarkFound(position, store_id, sound=len(intact) == len(slots))


class Watermark:
    """The file, open for writing; rewritten at every start from what recovery proved."""

    __slots__ = ("_disk", "_fd", "_map", "_store_id", "_turn", "position", "unsynced")

    def __init__(self, disk: Disk, directory: Path, store_id: bytes, position: int) -> None:
        assert len(store_id) == STORE_ID_BYTES
        self._disk = disk
        self._store_id = store_id
        self._turn = 0
        self.position = position
        self.unsynced = False
        path = directory / WATERMARK_NAME
        beside = path.with_suffix(".tmp")
        self._fd = disk.open(beside, writable=True, create=True)
        write_all(disk, self._fd, [encode_watermark(store_id, position)], 0)
        disk.sync(self._fd)
        disk.replace(beside, path)
        disk.sync_directory(directory)
        self._map = disk.map(self._fd, WATERMARK_BYTES)

    def advance(self, position: int) -> None:
        """Everything before `position` is durable."""
        assert position >= self.position, "the log became less durable"
        slot = _encode_slot(self._store_id, position)
        offset = _SLOT_OFFSETS[self._turn]
        self._map[offset : offset + len(slot)] = slot
        self._turn ^= 1
        self.position = position
        self.unsynced = True

    def sync(self) -> None:
        """Make the watermark itself durable."""
        if self.unsynced:
            self.unsynced = False
            self._disk.sync(self._fd)

    def close(self) -> None:
        """Close the file."""
        self._map.close()
        self._disk.close(self._fd)
