"""Pages: how the large parts of a fragment's state are written once and shared by checkpoints.

Owns how a part becomes a page: a taken part is only referred to, and encoded later by the writing
thread; code that changes such a part in place copies it first. Counts what the taking costs the
loop. Knows nothing of files; used by `snapshot` and what it calls.
"""

import struct
from array import array
from functools import partial
from typing import Final

from partibus.domain.errors import StoreCorrupt
from partibus.fragment.message import Overlay
from partibus.fragment.queue.table import COLUMNS, ROW_BYTES, Chunk
from partibus.fragment.records import pack_overlay, unpack_overlay
from partibus.store.pages import PageSource

PAGE_ROWS_MIN: Final = 33
"""A table with fewer rows is written inline: a page costs 32 bytes in every checkpoint."""
PAGE_BYTES_MIN: Final = 4096
"""The same for a part that is only bytes, or an array."""

_COUNT: Final = struct.Struct("<I")
_SEQUENCE: Final = struct.Struct("<Q")


class NewPages:
    """The pages that no checkpoint has written yet, and those that one state refers to."""

    __slots__ = ("mentioned", "next_number", "spent", "unwritten")

    def __init__(self, next_number: int) -> None:
        self.next_number = next_number
        self.unwritten: dict[int, PageSource] = {}
        self.mentioned: list[int] = []
        """The pages of the state that is being written."""
        self.spent = 0
        """The cost so far, in rows visited."""

    def begin(self) -> None:
        """Begin the next state."""
        self.mentioned = []

    def mention(self, number: int) -> int:
        """The state refers to a page."""
        self.mentioned.append(number)
        return number

    def add(self, source: PageSource) -> int:
        """A new page, which the state refers to."""
        number = self.next_number
        self.next_number = number + 1
        self.unwritten[number] = source
        return self.mention(number)


def encode_rows(
    rows: "array[int]", head: int, end: int, overlays: dict[int, Overlay] | None
) -> list[bytes]:
    """The page of a table's chunk: its rows, and the overlays of their messages."""
    rows = rows[head:end]
    parts = [_COUNT.pack(len(rows) // COLUMNS), rows.tobytes()]
    if overlays:
        parts += pack_overlays({n: overlays[n] for n in rows[0::COLUMNS] if n in overlays})
    return parts


def encode_words(words: "array[int]") -> list[bytes]:
    """The page of an array; code that changes it afterwards copies it first."""
    return [words.tobytes()]


def encode_bytes(data: bytes) -> list[bytes]:
    """The page of bytes."""
    return [data]


def page_of(chunk: Chunk, pages: NewPages) -> int:
    """The page of a chunk's rows; a new one if they have changed."""
    if chunk.page and chunk.page_end == len(chunk.rows):
        return pages.mention(chunk.page)
    chunk.page_head, chunk.page_end = chunk.head, len(chunk.rows)
    taken = partial(encode_rows, chunk.rows, chunk.head, chunk.page_end, chunk.overlays)
    chunk.page = pages.add(taken)
    return chunk.page


def chunk_of(data: bytes, number: int, skipped: int, count: int) -> Chunk:
    """The chunk that was written as a page, without its first rows."""
    (row_count,) = _COUNT.unpack_from(data, 0)
    end = _COUNT.size + row_count * ROW_BYTES
    if end > len(data) or not 0 < count == row_count - skipped:
        raise StoreCorrupt("a page of a fragment's snapshot is truncated")
    rows = array("Q")
    rows.frombytes(memoryview(data)[_COUNT.size : end])
    chunk = Chunk(rows)
    chunk.head = skipped * COLUMNS
    chunk.page, chunk.page_end = number, len(rows)
    if end < len(data):
        chunk.overlays = unpack_overlays(data, end, len(data))
    return chunk


def pack_overlays(overlays: dict[int, Overlay]) -> list[bytes]:
    """Overlays of messages, each after its sequence."""
    parts: list[bytes] = []
    for sequence, overlay in overlays.items():
        parts += (_SEQUENCE.pack(sequence), pack_overlay(overlay))
    return parts


def unpack_overlays(data: bytes, offset: int, end: int) -> dict[int, Overlay]:
    """What `pack_overlays` wrote, up to an end."""
    overlays: dict[int, Overlay] = {}
    while offset < end:
        (sequence,) = _SEQUENCE.unpack_from(data, offset)
        overlay, offset = unpack_overlay(data, offset + _SEQUENCE.size)
        if overlay is not None:
            overlays[sequence] = overlay
    return overlays
