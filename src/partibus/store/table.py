"""Which segments there are, and how much of each is still needed.

Owns the counts of live bodies per segment, the answer to "which file has this position", and what
compaction needs to know later: which bodies were retained and released. Must never touch a file.
Used on the loop thread by the store, its readers and its compactor.
"""

from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from partibus.domain.errors import StoreCorrupt
from partibus.store.files.segment import segment_name

# The end of the segment that is still being written.
OPEN_END: Final = 1 << 64


class Extents:
    """Where the bodies of a compacted file are: runs that have the same length in the log and in
    it."""

    __slots__ = ("lengths", "offsets", "starts")

    def __init__(self) -> None:
        self.starts = array("Q")
        """Log positions of the checksum of the first body of each run, ascending."""
        self.offsets = array("Q")
        """Where each run begins in the file."""
        self.lengths = array("Q")

    def add(self, start: int, offset: int, length: int) -> None:
        """Add a stretch; it is merged with the last one when they are adjacent."""
        if self.starts and self.starts[-1] + self.lengths[-1] == start:
            self.lengths[-1] += length
            return
        self.starts.append(start)
        self.offsets.append(offset)
        self.lengths.append(length)

    def find(self, position: int) -> int:
        """The index of the run that contains a position; -1 when there is none."""
        index = bisect_right(self.starts, position) - 1
        if index < 0 or position >= self.starts[index] + self.lengths[index]:
            return -1
        return index


class Segment:
    """A stretch of the log and the file with its live bodies.

    As it was written, or compacted to what was live (`extents`). How often a body is needed is 1
    when it is at `counted_from` or after, plus its entries in `retained`, less those in `released`.
    Both contain offsets from `base`. `live` counts a body once for each user; `shared_bytes` is how
    much of that was counted more than once at the last survey.
    """

    __slots__ = (
        "base",
        "body_bytes",
        "counted_from",
        "end",
        "extents",
        "file_bytes",
        "is_compacting",
        "is_damaged",
        "live",
        "name",
        "released",
        "retained",
        "retained_lengths",
        "revision",
        "shared_bytes",
        "surveyed_live",
    )

    def __init__(self, base: int, end: int, counted_from: int) -> None:
        self.base = base
        self.end = end
        self.counted_from = counted_from
        self.live = 0
        self.name = segment_name(base)
        self.file_bytes = 0 if end == OPEN_END else end - base
        self.body_bytes = self.file_bytes
        """What counts as full; for a compacted file only the bodies, since their index stays."""
        self.extents: Extents | None = None
        self.revision = 0
        self.is_compacting = False
        self.is_damaged = False
        # A file that was written as a segment is shorter than 4 GiB (ENTRY_PAYLOAD_BYTES_MAX).
        self.retained = array("I")
        self.retained_lengths = array("I")
        self.released = array("I")
        self.shared_bytes = 0
        self.surveyed_live = 0

    @property
    def needed_bytes(self) -> int:
        """The live bytes, each body counted once, as far as is known."""
        return max(0, self.live - self.shared_bytes)

    @property
    def is_surveyed(self) -> bool:
        """Whether it is known well enough how many live bytes are counted more than once."""
        if not self.retained or not self.live:
            return True
        return 5 * self.live > 4 * self.surveyed_live > 0

    def stretch(self, position: int) -> tuple[int, int]:
        """The offset of a position in the file, and the log position up to which the file continues
        without a gap; (-1, 0) when compaction left it out."""
        extents = self.extents
        if extents is None:
            return position - self.base, self.end
        index = extents.find(position)
        if index < 0:
            return -1, 0
        start = extents.starts[index]
        return extents.offsets[index] + position - start, start + extents.lengths[index]

    def forget_counts(self) -> None:
        """Nothing in it is needed: single bodies need not be known any more."""
        self.counted_from = self.end
        self.retained = self.retained[:0]
        self.retained_lengths = self.retained_lengths[:0]
        self.shared_bytes = 0
        self.released = self.released[:0]


@dataclass(eq=False, slots=True)
class SegmentTable:
    """Segments in the order of the log, each with its end and its live bytes."""

    directory: Path
    _bases: list[int] = field(init=False, default_factory=list)
    _segments: list[Segment] = field(init=False, default_factory=list)
    live_bytes: int = field(init=False, default=0)
    sealed_bytes: int = field(init=False, default=0)
    """The size of all files except the last."""
    held: dict[int, int] = field(init=False, default_factory=dict)
    """Bodies that are being read, and how often; they are kept, released or not."""

    def add(self, base: int, end: int = OPEN_END) -> None:
        """Add a segment after all others; its bodies are live as they are appended."""
        self.insert(Segment(base, end, base))

    def insert(self, segment: Segment) -> None:
        """Add a segment after all others, unchanged."""
        assert not self._bases or self._segments[-1].end <= segment.base, "segments overlap"
        self._bases.append(segment.base)
        self._segments.append(segment)
        self.sealed_bytes += segment.file_bytes

    def fill(
        self, bases: list[int], sizes: list[int], compacted: list[Segment] | None = None
    ) -> None:
        """The segments of an existing log, with the lengths of their files, and those that were
        compacted.

        A sealed file may be longer than its entries if a crash prevented its cut. What is live in
        them is unknown until it is retained.
        """
        found = {segment.base: segment for segment in compacted or []}
        limits = sorted([*bases, *found])[1:]
        size_of = dict(zip(bases, sizes, strict=True))
        for base, after in zip(sorted([*bases, *found]), [*limits, OPEN_END], strict=True):
            if base in found:
                self.insert(found[base])
                continue
            end = after if after == OPEN_END else min(after, base + size_of[base])
            self.insert(Segment(base, end, end))

    def begin(self, tail: int) -> None:
        """Recovery is over: everything appended to the last segment from `tail` on is live."""
        self._segments[-1].counted_from = tail

    def seal(self, end: int) -> None:
        """The last segment is closed for writing."""
        segment = self._segments[-1]
        segment.end = end
        segment.file_bytes = segment.body_bytes = end - segment.base
        self.sealed_bytes += segment.file_bytes
        if not segment.live:
            segment.forget_counts()

    def reopen(self, base: int, tail: int) -> None:
        """The segment `base` is the last again: everything after `tail` was never durable."""
        keep = bisect_right(self._bases, base)
        assert self._bases[keep - 1] == base
        assert not any(s.live for s in self._segments[keep:]), "what was never durable is live"
        del self._bases[keep:], self._segments[keep:]
        segment = self._segments[-1]
        segment.end = OPEN_END
        segment.file_bytes = segment.body_bytes = 0
        segment.counted_from = min(segment.counted_from, tail)
        self.sealed_bytes = sum(s.file_bytes for s in self._segments)

    def segment_at(self, position: int) -> Segment:
        """The segment that contains a position."""
        index = bisect_right(self._bases, position) - 1
        if index < 0 or position >= self._segments[index].end:
            raise self.missing(position)
        return self._segments[index]

    def append(self, body_bytes: int) -> None:
        """Bodies were appended to the last segment."""
        self._segments[-1].live += body_bytes
        self.live_bytes += body_bytes

    def void(self, position: int, body_bytes: int) -> None:
        """The bodies of an entry that never became durable."""
        self._count_off(self._segment_of(position), body_bytes)

    def retain(self, position: int, length: int) -> None:
        """One more body is needed."""
        index = bisect_right(self._bases, position) - 1
        if index < 0 or position + length > self._segments[index].end:
            raise self.missing(position)
        segment = self._segments[index]
        if segment.extents is not None and segment.stretch(position)[0] < 0:
            raise self.missing(position)
        segment.retained.append(position - segment.base)
        segment.retained_lengths.append(length)
        segment.live += length
        self.live_bytes += length

    def retain_many(self, positions: "array[int]", lengths: "array[int]") -> None:
        """Many more bodies are needed; those of one segment are counted at once."""
        if not positions:
            return
        first, last = min(positions), max(positions)
        segment = self._segments[max(0, bisect_right(self._bases, first) - 1)]
        base = segment.base
        is_within = first >= base and last + max(lengths) <= segment.end
        if not is_within or not min(lengths) or segment.extents is not None:
            for position, length in zip(positions, lengths, strict=True):
                if length:
                    self.retain(position, length)
            return
        live = sum(lengths)
        segment.retained.extend([position - base for position in positions])
        segment.retained_lengths.extend(lengths)
        segment.live += live
        self.live_bytes += live

    def release(self, position: int, length: int) -> None:
        """One body fewer is needed."""
        index = bisect_right(self._bases, position) - 1
        assert index >= 0, "a body was released that no segment holds"
        segment = self._segments[index]
        live = segment.live - length
        assert live >= 0, "more was released than was live"
        segment.live = live
        self.live_bytes -= length
        if live or segment.end == OPEN_END or segment.is_compacting:
            segment.released.append(position - segment.base)
        else:
            segment.forget_counts()

    def hold(self, position: int) -> None:
        """A body is being read: its file is kept until `let_go`, released or not."""
        self.held[position] = self.held.get(position, 0) + 1

    def let_go(self, position: int) -> None:
        """A reader is done with a body."""
        count = self.held.pop(position) - 1
        if count:
            self.held[position] = count

    def holds_nothing(self, base: int) -> bool:
        """Whether the segment exists and has no live body."""
        index = bisect_left(self._bases, base)
        if index >= len(self._bases) or self._bases[index] != base:
            return False
        return self._is_needless(self._segments[index])

    def empty_before(self, position: int) -> list[int]:
        """The segments that are wholly before a position and have no needed body."""
        # The last one is always kept.
        return [s.base for s in self.before(position) if self._is_needless(s)]

    def before(self, position: int) -> list[Segment]:
        """The sealed segments that are wholly before a durable position.

        A segment that ends exactly there may be the last file of the log: the next segment is in
        the table as soon as an entry is assigned to it, but creating its file may fail. A position
        behind the start of the next segment is durable only if that file exists."""
        return [segment for segment in self._segments[:-1] if segment.end < position]

    def remove(self, base: int) -> Segment:
        """The segment was deleted."""
        index = bisect_left(self._bases, base)
        segment = self._segments[index]
        assert segment.base == base
        assert not segment.live
        del self._bases[index], self._segments[index]
        self.sealed_bytes -= segment.file_bytes
        return segment

    def replace(self, old: list[Segment], new: Segment) -> None:
        """Neighbours were compacted into one file."""
        first = bisect_left(self._bases, old[0].base)
        last = first + len(old)
        assert self._segments[first:last] == old, "the segments changed while they were compacted"
        self._bases[first:last] = [new.base]
        self._segments[first:last] = [new]
        self.sealed_bytes += new.file_bytes - sum(segment.file_bytes for segment in old)

    def missing(self, position: int) -> StoreCorrupt:
        """The error for a body whose file does not exist, or no longer contains it."""
        index = bisect_right(self._bases, position) - 1
        near, base = segment_name(0), 0
        if index >= 0:
            near, base = self._segments[index].name, self._segments[index].base
        return StoreCorrupt.at(
            self.directory / near,
            position - base,
            "a message is expected here, but "
            "this file, or the one after it, is missing or truncated; restore it from a copy.",
        )

    def __len__(self) -> int:
        return len(self._bases)

    def _segment_of(self, position: int) -> Segment:
        index = bisect_right(self._bases, position) - 1
        assert index >= 0, "a body was released that no segment holds"
        return self._segments[index]

    def _count_off(self, segment: Segment, length: int) -> None:
        assert segment.live >= length, "more was released than was live"
        segment.live -= length
        self.live_bytes -= length

    def _is_needless(self, segment: Segment) -> bool:
        if segment.live or segment.is_compacting:
            return False
        return not any(segment.base <= position < segment.end for position in self.held)
