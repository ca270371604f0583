"""A word for each of many numbers that are nearly consecutive: a dense map in chunks.

Owns the chunks of 256 words, four or eight bytes a number, and their form in a snapshot. A word is
never 0, which stands for none; a chunk is dropped with its last word. Knows nothing of what numbers
and words mean: the sessions of messages, or the routes of parcels.
"""

import struct
from array import array
from collections.abc import Iterator
from typing import Final

from partibus.domain.errors import StoreCorrupt

_CHUNK_BITS: Final = 8
_CHUNK_WORDS: Final = 1 << _CHUNK_BITS
_PLACE: Final = _CHUNK_WORDS - 1
_BASE: Final = struct.Struct("<Q")


class WordChunk:
    """The words of neighbouring numbers, and how many of them are set."""

    __slots__ = ("live", "words")

    def __init__(self, words: "array[int]", live: int) -> None:
        self.words = words
        self.live = live


class WordMap:
    """Words by number."""

    __slots__ = ("_chunks", "_zero")

    def __init__(self, zero: "array[int]") -> None:
        self._zero = zero
        """An array with one word that is 0: words have its type."""
        self._chunks: dict[int, WordChunk] = {}

    def put(self, number: int, word: int) -> None:
        """Set the word of a number that has none yet."""
        chunk = self._chunks.get(number >> _CHUNK_BITS)
        if chunk is None:
            chunk = WordChunk(self._zero * _CHUNK_WORDS, 0)
            self._chunks[number >> _CHUNK_BITS] = chunk
        chunk.words[number & _PLACE] = word
        chunk.live += 1

    def get(self, number: int) -> int:
        """The word of a number; 0 when it has none."""
        chunk = self._chunks.get(number >> _CHUNK_BITS)
        return 0 if chunk is None else chunk.words[number & _PLACE]

    def drop(self, number: int) -> int:
        """Forget a number; returns its word, 0 when it had none."""
        chunk = self._chunks.get(number >> _CHUNK_BITS)
        if chunk is None:
            return 0
        word = chunk.words[number & _PLACE]
        if word:
            chunk.words[number & _PLACE] = 0
            chunk.live -= 1
            if not chunk.live:
                del self._chunks[number >> _CHUNK_BITS]
        return word

    def words(self) -> Iterator[int]:
        """Every word that is set."""
        for chunk in self._chunks.values():
            yield from [word for word in chunk.words if word]

    def replace(self, others: dict[int, int]) -> None:
        """Set other words in place of these."""
        for chunk in self._chunks.values():
            for place, word in enumerate(chunk.words):
                chunk.words[place] = others.get(word, word)

    # --- for snapshots --------------------------------------------------------------------

    def dump(self) -> bytes:
        """The chunks as they are in memory, each after its index."""
        parts: list[bytes] = []
        for base, chunk in self._chunks.items():
            parts += (_BASE.pack(base), chunk.words.tobytes())
        return b"".join(parts)

    def load(self, data: bytes, offset: int, what: str) -> None:
        """Fill an empty map from what `dump` wrote, up to the end; errors say of what it is."""
        size = _CHUNK_WORDS * self._zero.itemsize
        while offset < len(data):
            if len(data) - offset < _BASE.size + size:
                raise StoreCorrupt(f"a snapshot's {what} is truncated")
            (base,) = _BASE.unpack_from(data, offset)
            offset += _BASE.size
            words = self._zero[:0]
            words.frombytes(data[offset : offset + size])
            offset += size
            self._chunks[base] = WordChunk(words, len([word for word in words if word]))
