"""Reading the log back: returns what was durable, or an error that says where it is damaged.

Owns the decision at the first position without an intact entry. If anything shows that the log was
durable beyond it, it is damage: StoreCorrupt with file and offset. Otherwise nothing there was
acknowledged: the tail is cut. Evidence is the watermark file, the checkpoint, the base of the last
segment (made after all before it was synced) and every intact entry header further on. Called once,
by the store, when it opens.
"""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from partibus.domain.errors import StoreCorrupt
from partibus.store.files.disk import Disk
from partibus.store.files.inventory import Inventory
from partibus.store.files.segment import SEGMENT_HEADER_BYTES, reservation, segment_path, write_all
from partibus.store.interface import RecoveredRecord
from partibus.store.record import (
    BODY_CRC_BYTES,
    ENTRY_HEADER_BYTES,
    ENTRY_MAGIC,
    ENTRY_VERSION,
    ROW_BYTES,
    EntryHeader,
    crc32c,
    unpack_header,
    unpack_rows,
)

# Large enough that the system call is negligible beside the checksums, small enough to stay in
# the processor's cache while entries are decoded.
SCAN_CHUNK_BYTES: Final = 1 << 20

_ZEROS: Final = bytes(SCAN_CHUNK_BYTES + ENTRY_HEADER_BYTES)
_log: Final = logging.getLogger(__name__)


class LogScan:
    """One pass over the segments from the checkpoint on; `end` is valid when it is over."""

    def __init__(self, disk: Disk, directory: Path, inventory: Inventory) -> None:
        self._disk = disk
        self._directory = directory
        self._seed = crc32c(inventory.store_id)
        self._bases = inventory.bases
        self._may_cut = inventory.may_cut
        self.end = inventory.checkpoint.position if inventory.checkpoint else 0
        self._durable = self.known_durable = max(inventory.durable, self.end, self._bases[-1])
        self.cut_bytes = 0

    def records(self) -> Iterator[RecoveredRecord]:
        """Every record after the start, in order."""
        first = self._first_segment()
        for index in range(first, len(self._bases)):
            base = self._bases[index]
            path = segment_path(self._directory, base)
            if index > first and self.end != base:
                raise self._gap(self._bases[index - 1], base)
            self.end = max(self.end, base + SEGMENT_HEADER_BYTES)
            fd = self._disk.open(path, writable=False)
            try:
                written_end = self._disk.written_end(fd)
                for header, payload in self._entries(fd, base, written_end):
                    yield from entry_records(path, base, header, payload)
                if base == self._bases[-1]:
                    self._judge_end(fd, base, written_end)
            finally:
                self._disk.close(fd)

    def _first_segment(self) -> int:
        """The segment that contains the start: the last one that begins at or before it."""
        start = self.end
        index = sum(1 for base in self._bases if base <= start) - 1
        if index < 0:
            raise StoreCorrupt.at(
                segment_path(self._directory, start),
                0,
                f"the segment that holds "
                f"position {start:#x} is missing; the log begins at {self._bases[0]:#x}.",
            )
        path = segment_path(self._directory, self._bases[index])
        size = self._disk.length(path)
        if size < start - self._bases[index]:
            raise StoreCorrupt.at(
                path,
                size,
                f"the file is truncated; the checkpoint is at offset {start - self._bases[index]}.",
            )
        return index

    def _entries(self, fd: int, base: int, written_end: int) -> Iterator[tuple[EntryHeader, bytes]]:
        """Intact entries of one segment, until there is none."""
        seed = self._seed
        chunk = b""
        chunk_at = self.end
        while True:
            position = self.end
            offset = position - chunk_at
            header = unpack_header(seed, chunk, offset)
            payload_at = offset + ENTRY_HEADER_BYTES
            if header is None or payload_at + header.length > len(chunk):
                wanted = SCAN_CHUNK_BYTES
                if header is not None and header.position == position:
                    wanted = max(wanted, ENTRY_HEADER_BYTES + header.length)
                wanted = min(wanted, written_end - (position - base))
                if wanted <= 0 or (offset == 0 and len(chunk) >= wanted):
                    return
                chunk = self._disk.read(fd, wanted, position - base)
                if len(chunk) < wanted:
                    written_end = position - base + len(chunk)
                chunk_at = position
                continue
            payload = chunk[payload_at : payload_at + header.length]
            if header.position != position or crc32c(payload) != header.crc:
                return
            if header.version != ENTRY_VERSION:
                raise StoreCorrupt.at(
                    segment_path(self._directory, base),
                    position - base,
                    f"entry format {header.version}; this release reads {ENTRY_VERSION}.",
                )
            self.end = position + ENTRY_HEADER_BYTES + header.length
            yield header, payload

    def _gap(self, base: int, next_base: int) -> StoreCorrupt:
        """Before the last segment nothing may be damaged: it was synced before the next began."""
        path = segment_path(self._directory, base)
        offset = self.end - base
        if self._disk.length(path) <= offset:
            return StoreCorrupt.at(
                segment_path(self._directory, self.end),
                0,
                f"the segment is missing; "
                f"{path.name} ends where it begins, and the next existing one begins at "
                f"{next_base:#x}.",
            )
        return self._damaged(base, offset, f"the log continues at {next_base:#x}")

    def _judge_end(self, fd: int, base: int, written_end: int) -> None:
        """No entry at `end` of the last segment: a clean end, a torn tail, or damage."""
        offset = self.end - base
        written = self._read_tail(fd, base, written_end)
        if self._durable > self.end:
            raise self._damaged(
                base, offset, f"the log is known to be durable up to {self._durable - base}"
            )
        if not written:
            return
        if not self._may_cut:
            raise self._damaged(
                base, offset, "the file `durable` is damaged or missing, so nothing may be cut"
            )
        self.cut_bytes = written
        _log.warning(
            "%s: offset %d: cutting a torn tail of %d bytes that were never acknowledged",
            segment_path(self._directory, base),
            offset,
            written,
        )

    def _read_tail(self, fd: int, base: int, written_end: int) -> int:
        """Look for evidence after `end`; returns how far anything was written."""
        start = self.end - base
        last = start
        # Headers are found by their magic and may span two reads: overlap by one header.
        for offset in range(start, written_end, SCAN_CHUNK_BYTES):
            length = min(SCAN_CHUNK_BYTES + ENTRY_HEADER_BYTES, written_end - offset)
            data = self._disk.read(fd, length, offset)
            if data != _ZEROS[: len(data)]:
                last = max(last, offset + len(data.rstrip(b"\0")))
                self._look_for_headers(data, base + offset)
        return last - start

    def _look_for_headers(self, data: bytes, position: int) -> None:
        """Any intact header states how far the log was durable when it was written."""
        found = data.find(ENTRY_MAGIC)
        while found >= 0:
            header = unpack_header(self._seed, data, found)
            if header is not None and header.position == position + found:
                self._durable = max(self._durable, header.durable)
            found = data.find(ENTRY_MAGIC, found + 1)

    def _damaged(self, base: int, offset: int, why: str) -> StoreCorrupt:
        return StoreCorrupt.at(
            segment_path(self._directory, base),
            offset,
            f"there is no intact entry here, "
            f"but {why}. Restore the file from a copy; nothing was changed.",
        )


def settle_tail(disk: Disk, directory: Path, scan: LogScan, base: int, segment_bytes: int) -> None:
    """Cut the last segment where the scan ended and make what it found durable.

    After a crash an entry may be complete in the page cache but not on the disk; from here on it
    counts as durable, so it is written again and synced. The cut leaves zeros, so that nothing
    stale is ever found again.
    """
    fd = disk.open(segment_path(directory, base), writable=True)
    try:
        if scan.cut_bytes:
            disk.truncate(fd, scan.end - base)
        reserved = reservation(scan.end - base, segment_bytes)
        if disk.size(fd) < reserved:
            disk.allocate(fd, reserved)
        _write_again(disk, fd, max(0, scan.known_durable - base), scan.end - base)
        disk.sync(fd)
    finally:
        disk.close(fd)


def _write_again(disk: Disk, fd: int, start: int, end: int) -> None:
    """Write again what is not known to be synced, so that the next sync writes it.

    A sync that failed in the previous process leaves its pages readable and marked as written: the
    next one would succeed without them, and a power loss would lose what counts as durable.
    """
    if start <= SEGMENT_HEADER_BYTES:
        start = 0  # the header too: the segment may have been begun by a failed sync
    for offset in range(start, end, SCAN_CHUNK_BYTES):
        data = disk.read(fd, min(SCAN_CHUNK_BYTES, end - offset), offset)
        write_all(disk, fd, [data], offset)


def entry_records(
    place: Path | str, base: int, header: EntryHeader, payload: bytes
) -> Iterator[RecoveredRecord]:
    """The records of one entry; the path and its base are for error texts."""
    meta_at = header.count * ROW_BYTES
    rows = payload[:meta_at]
    body_at = meta_at + sum([row[1] for row in unpack_rows(rows)])
    payload_position = header.position + ENTRY_HEADER_BYTES
    for fragment, meta_length, body_length, kind in unpack_rows(rows):
        meta = payload[meta_at : meta_at + meta_length]
        meta_at += meta_length
        if body_length:
            body_at += BODY_CRC_BYTES
            yield RecoveredRecord(fragment, kind, meta, payload_position + body_at, body_length)
            body_at += body_length
        else:
            yield RecoveredRecord(fragment, kind, meta, 0, 0)
    if body_at != header.length:
        raise StoreCorrupt.at(
            place, header.position - base, "the lengths in an entry do not add up."
        )
