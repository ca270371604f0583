"""Which session a message belongs to: from sequence numbers to session numbers.

Owns a dense map in chunks of 256 sequences, four bytes a message, since a session entity's messages
all have a session and their numbers are consecutive. A chunk is dropped with its last message.
Knows nothing of sessions but their numbers; owned by `state`.
"""

import struct
from array import array
from typing import Final

from partibus.domain.errors import StoreCorrupt

CHUNK_BITS: Final = 8
CHUNK_SEQUENCES: Final = 1 << CHUNK_BITS
_PLACE: Final = CHUNK_SEQUENCES - 1
_BASE: Final = struct.Struct("<Q")
_CHUNK_BYTES: Final = 4 * CHUNK_SEQUENCES
NOBODY: Final = 0
"""In place of a session's number: the message has no session."""


class NumberChunk:
    """The session numbers of CHUNK_SEQUENCES messages, and how many of them are set."""

    __slots__ = ("live", "numbers")

    def __init__(self, numbers: "array[int]", live: int) -> None:
        self.numbers = numbers
        self.live = live


class SessionNumbers:
    """Session numbers by sequence number."""

    __slots__ = ("_chunks",)

    def __init__(self) -> None:
        self._chunks: dict[int, NumberChunk] = {}

    def put(self, sequence: int, number: int) -> None:
        """Set the session of a message that has none yet."""
        chunk = self._chunks.get(sequence >> CHUNK_BITS)
        if chunk is None:
            chunk = NumberChunk(array("I", bytes(_CHUNK_BYTES)), 0)
            self._chunks[sequence >> CHUNK_BITS] = chunk
        chunk.numbers[sequence & _PLACE] = number
        chunk.live += 1

    def get(self, sequence: int) -> int:
        """The session of a message, or NOBODY."""
        chunk = self._chunks.get(sequence >> CHUNK_BITS)
        return NOBODY if chunk is None else chunk.numbers[sequence & _PLACE]

    def drop(self, sequence: int) -> int:
        """Forget a message; returns the session it was in, or NOBODY."""
        chunk = self._chunks.get(sequence >> CHUNK_BITS)
        if chunk is None:
            return NOBODY
        number = chunk.numbers[sequence & _PLACE]
        if number:
            chunk.numbers[sequence & _PLACE] = NOBODY
            chunk.live -= 1
            if not chunk.live:
                del self._chunks[sequence >> CHUNK_BITS]
        return number

    # --- for snapshots --------------------------------------------------------------------

    def dump(self, parts: list[bytes]) -> None:
        """The chunks as they are in memory, each after its index."""
        for base, chunk in self._chunks.items():
            parts.append(_BASE.pack(base))
            parts.append(chunk.numbers.tobytes())

    def load(self, data: bytes, offset: int, moved: dict[int, int]) -> list[int]:
        """Fill an empty map from what `dump` wrote, up to the end; returns the number of each
        message. Sessions in `moved` have other numbers now."""
        every: list[int] = []
        while offset < len(data):
            if len(data) - offset < _BASE.size + _CHUNK_BYTES:
                raise StoreCorrupt("a snapshot's table of sessions is cut short")
            (base,) = _BASE.unpack_from(data, offset)
            offset += _BASE.size
            numbers = array("I")
            numbers.frombytes(data[offset : offset + _CHUNK_BYTES])
            offset += _CHUNK_BYTES
            if moved:
                numbers = array("I", [moved.get(number, number) for number in numbers])
            live = [number for number in numbers if number]
            self._chunks[base] = NumberChunk(numbers, len(live))
            every += live
        return every
