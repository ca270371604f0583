"""A table of messages in a snapshot: chunks in pages, and the rest inline.

Owns how a table and the messages that are currently out of it are written and read, in the present
layout and in that of earlier releases. Used by `snapshot` and `outbox.records`.
"""

import struct
from array import array
from typing import Final

from partibus.domain.errors import StoreCorrupt
from partibus.fragment.message import Held, Overlay
from partibus.fragment.paging import (
    PAGE_ROWS_MIN,
    NewPages,
    chunk_of,
    pack_overlays,
    page_of,
    unpack_overlays,
)
from partibus.fragment.queue.history import Part
from partibus.fragment.queue.table import (
    COLUMNS,
    ROW_BYTES,
    Chunk,
    MessageTable,
    laid_over,
    packed,
    unpacked,
)
from partibus.fragment.records import unpack_overlay
from partibus.store.interface import Pages

PAGED_VERSION: Final = 4
"""The first snapshot version with pages; before, every row was inline."""
_TABLE: Final = struct.Struct("<IIQ")
"""Chunks, messages outside, bytes of the overlays."""
_CHUNK: Final = struct.Struct("<QIIQ")
"""Page, or 0 when the rows follow; rows that are gone from it; rows; the earliest expiry."""
_UNPAGED_TABLE: Final = struct.Struct("<QII")
_UNPAGED_HELD: Final = struct.Struct("<QQIIQQ")
_SEQUENCE: Final = struct.Struct("<Q")


def dump_table(
    table: MessageTable, loose: list[Held], parts: list[Part], pages: NewPages | None
) -> None:
    """A table with the messages that are out of it; without `pages` every row is inline."""
    overlays: dict[int, Overlay] = {}
    heads: list[bytes] = []
    rows: list[Part] = []
    chunks = table.chunks()
    for chunk in chunks:
        count = (len(chunk.rows) - chunk.head) // COLUMNS
        if pages is not None and count >= PAGE_ROWS_MIN:
            number = page_of(chunk, pages)
            skipped = (chunk.head - chunk.page_head) // COLUMNS
            heads.append(_CHUNK.pack(number, skipped, count, chunk.expires_ms_min))
        else:
            heads.append(_CHUNK.pack(0, 0, count, chunk.expires_ms_min))
            rows.append(chunk.rows[chunk.head :])
            overlays.update(laid_over(chunk))
    if loose:
        rows.append(_loose_rows(loose, overlays))
    laid = b"".join(pack_overlays(overlays))
    parts.append(_TABLE.pack(len(chunks), len(loose), len(laid)))
    parts += heads
    parts += rows
    parts.append(laid)
    if pages is not None:
        pages.spent += len(chunks) + len(loose)


def _loose_rows(loose: list[Held], overlays: dict[int, Overlay]) -> "array[int]":
    rows = array("Q")
    for held in loose:
        word, stamp = packed(held)
        rows.extend(
            (held.sequence, held.position, held.length | word << 32, stamp, held.expires_ms)
        )
        if held.overlay is not None:
            overlays[held.sequence] = held.overlay
    return rows


class TableReader:
    """Reads the tables of one snapshot."""

    __slots__ = ("_pages", "_version")

    def __init__(self, version: int, pages: Pages) -> None:
        self._version = version
        self._pages = pages

    def page(self, number: int) -> bytes:
        """A page that the snapshot refers to."""
        return self._pages.read(number)

    def load(self, table: MessageTable, data: bytes, offset: int) -> int:
        """Fill an empty table; returns the offset after it."""
        if self._version < PAGED_VERSION:
            return _load_unpaged(table, data, offset)
        chunk_count, loose_count, laid_bytes = _TABLE.unpack_from(data, offset)
        heads_at = offset + _TABLE.size
        offset = heads_at + chunk_count * _CHUNK.size
        heads = list(_CHUNK.iter_unpack(data[heads_at:offset]))
        inline = sum([count for number, _, count, _ in heads if not number])
        laid_at = offset + (inline + loose_count) * ROW_BYTES
        end: int = laid_at + laid_bytes
        if len(heads) != chunk_count or end > len(data):
            raise StoreCorrupt("a fragment's snapshot is truncated")
        overlays = unpack_overlays(data, laid_at, end)
        for number, skipped, count, expires_ms_min in heads:
            if number:
                chunk = chunk_of(self._pages.read(number), number, skipped, count)
            else:
                chunk = _inline_chunk(data, offset, count, overlays)
                offset += count * ROW_BYTES
            chunk.expires_ms_min = expires_ms_min
            table.load_chunk(chunk)
        _insert_loose(table, data[offset:laid_at], overlays)
        return end


def _inline_chunk(data: bytes, offset: int, count: int, overlays: dict[int, Overlay]) -> Chunk:
    if not count:
        raise StoreCorrupt("a fragment's snapshot has a chunk without rows")
    rows = array("Q")
    rows.frombytes(data[offset : offset + count * ROW_BYTES])
    chunk = Chunk(rows)
    if overlays:
        chunk.overlays = {n: overlays[n] for n in rows[0::COLUMNS] if n in overlays} or None
    return chunk


def _insert_loose(table: MessageTable, data: bytes, overlays: dict[int, Overlay]) -> None:
    rows = array("Q")
    rows.frombytes(data)
    for at in range(0, len(rows), COLUMNS):
        sequence, position, sizes, stamp, expires_ms = rows[at : at + COLUMNS]
        length = sizes & 0xFFFF_FFFF
        overlay = overlays.get(sequence)
        table.insert(unpacked(sequence, position, length, sizes >> 32, stamp, expires_ms, overlay))


def _load_unpaged(table: MessageTable, data: bytes, offset: int) -> int:
    """The layout before version 4."""
    row_count, loose_count, overlay_count = _UNPAGED_TABLE.unpack_from(data, offset)
    rows_at = offset + _UNPAGED_TABLE.size
    offset = rows_at + row_count * ROW_BYTES
    if offset > len(data):
        raise StoreCorrupt("a fragment's snapshot is truncated")
    rows = data[rows_at:offset]
    loose: list[Held] = []
    for _ in range(loose_count):
        sequence, position, length, word, stamp, expires_ms = _UNPAGED_HELD.unpack_from(
            data, offset
        )
        overlay, offset = unpack_overlay(data, offset + _UNPAGED_HELD.size)
        loose.append(unpacked(sequence, position, length, word, stamp, expires_ms, overlay))
    overlays: dict[int, Overlay] = {}
    for _ in range(overlay_count):
        (sequence,) = _SEQUENCE.unpack_from(data, offset)
        overlay, offset = unpack_overlay(data, offset + _SEQUENCE.size)
        if overlay is not None:
            overlays[sequence] = overlay
    table.load(rows, overlays)
    for held in loose:
        table.insert(held)
    return offset
