"""Which segments there are, and how much of each is still needed.

Owns the account of live bodies per segment and the answer to "which file holds this
position". Touches no file. Lives on the loop thread and is called by the store only.
"""

from bisect import bisect_left, bisect_right
from pathlib import Path
from typing import Final

from partibus.domain.errors import StoreCorrupt
from partibus.store.segment import segment_path

# The end of the segment that is still written to.
OPEN_END: Final = 1 << 64


class SegmentTable:
    """Segments in the order of the log, each with its end and its live bytes."""

    __slots__ = ("_bases", "_directory", "_ends", "_live", "live_bytes")

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._bases: list[int] = []
        self._ends: list[int] = []
        self._live: list[int] = []
        self.live_bytes = 0

    def add(self, base: int, end: int = OPEN_END) -> None:
        """A segment after all others."""
        assert not self._bases or self._ends[-1] <= base, "segments overlap"
        self._bases.append(base)
        self._ends.append(end)
        self._live.append(0)

    def fill(self, bases: list[int], sizes: list[int]) -> None:
        """The segments of an existing log, with the lengths of their files.

        A sealed file may be longer than its entries when a crash kept it from being cut.
        """
        for base, size, after in zip(bases, sizes, [*bases[1:], OPEN_END], strict=True):
            self.add(base, after if after == OPEN_END else min(after, base + size))

    def seal(self, end: int) -> None:
        """The last segment is written to no more."""
        self._ends[-1] = end

    def reopen(self, base: int) -> None:
        """The segment `base` is the last again: those after it were never durable."""
        keep = bisect_right(self._bases, base)
        assert self._bases[keep - 1] == base
        assert not any(self._live[keep:]), "a body that was never durable is live"
        del self._bases[keep:], self._ends[keep:], self._live[keep:]
        self._ends[-1] = OPEN_END

    def locate(self, position: int) -> tuple[int, int]:
        """Base and end of the segment that holds a position."""
        index = bisect_right(self._bases, position) - 1
        if index < 0 or position >= self._ends[index]:
            raise self._missing(position)
        return self._bases[index], self._ends[index]

    def append(self, body_bytes: int) -> None:
        """Bodies were appended to the last segment."""
        self._live[-1] += body_bytes
        self.live_bytes += body_bytes

    def retain(self, position: int, length: int) -> None:
        """One more body is needed."""
        index = bisect_right(self._bases, position) - 1
        if index < 0 or position + length > self._ends[index]:
            raise self._missing(position)
        self._live[index] += length
        self.live_bytes += length

    def release(self, position: int, length: int) -> None:
        """One body less is needed."""
        index = bisect_right(self._bases, position) - 1
        assert index >= 0, "a body was released that no segment holds"
        live = self._live[index] - length
        assert live >= 0, "more was released than was live"
        self._live[index] = live
        self.live_bytes -= length

    def holds_nothing(self, base: int) -> bool:
        """The segment is there and no live body is in it."""
        index = bisect_left(self._bases, base)
        return index < len(self._bases) and self._bases[index] == base and not self._live[index]

    def empty_before(self, position: int) -> list[int]:
        """The segments that lie wholly before a position and hold no live body."""
        count = len(self._bases) - 1  # the last one is never given up
        return [
            self._bases[index]
            for index in range(count)
            if self._ends[index] <= position and not self._live[index]
        ]

    def remove(self, base: int) -> None:
        """The segment was given up."""
        index = bisect_left(self._bases, base)
        assert self._bases[index] == base
        assert not self._live[index]
        del self._bases[index], self._ends[index], self._live[index]

    def sealed_bytes(self) -> int:
        """The size of all files but the last."""
        return sum(self._ends[:-1]) - sum(self._bases[:-1])

    def __len__(self) -> int:
        return len(self._bases)

    def _missing(self, position: int) -> StoreCorrupt:
        index = bisect_right(self._bases, position) - 1
        near = self._bases[index] if index >= 0 else 0
        return StoreCorrupt(
            f"{self._directory}: the segment that held position {position:#x} is missing or cut "
            f"short (nearest: {segment_path(self._directory, near).name}); restore it from a copy."
        )
