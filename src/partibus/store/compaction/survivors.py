"""What compaction keeps: the bodies of some segments that are still needed, copied into one place.

Owns the copying and its verification: the needed bodies must add up to what the table counted, and
each must match its checksum, or the segments stay as they are. Runs on the compactor's thread, on a
copy of the counts, while the loop goes on; must never touch the table.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from partibus.domain.errors import StoreCorrupt
from partibus.store.compaction.compacted_file import is_intact
from partibus.store.record import BODY_CRC_BYTES
from partibus.store.table import Extents, Segment

Bodies = Iterator[tuple[int, int, Callable[[], bytes]]]
"""Position and length of each body of a segment, and how to read it with its checksum."""


class Source:
    """A segment as it was counted when its compaction began."""

    __slots__ = (
        "base",
        "counted_from",
        "end",
        "is_kept",
        "live",
        "name",
        "released",
        "retained",
        "retained_lengths",
    )

    def __init__(self, segment: Segment) -> None:
        self.name = segment.name
        self.base = segment.base
        self.end = segment.end
        self.is_kept = segment.extents is not None
        self.counted_from = segment.counted_from
        self.live = segment.live
        self.retained = segment.retained[:]
        self.retained_lengths = segment.retained_lengths[:]
        self.released = segment.released[:]


class Needs:
    """How often each body of a source is needed."""

    __slots__ = ("_base", "_counted_from", "_gone", "_net")

    def __init__(self, source: Source) -> None:
        self._base = source.base
        self._counted_from = source.counted_from
        self._gone: set[int] = set()
        self._net: Counter[int] = Counter()
        if source.retained or source.counted_from > source.base:
            self._net.update(source.retained)
            self._net.subtract(source.released)
        else:
            self._gone.update(source.released)

    def count(self, position: int) -> int:
        """How many messages use a body."""
        distance = position - self._base
        if self._gone or not self._net:
            return int(position >= self._counted_from and distance not in self._gone)
        return int(position >= self._counted_from) + self._net[distance]


class SurvivorWriter(Protocol):
    """Writes the file or table that the bodies move to; it counts when `finish` has returned."""

    extents: Extents
    body_bytes: int
    file_bytes: int

    def add(self, position: int, sealed_body: bytes) -> None:
        """A body after its checksum; positions ascend."""
        ...

    def finish(self) -> None:
        """Make it durable, in one step."""
        ...

    def drop(self) -> None:
        """Discard it."""
        ...


class CompactionPlace(Protocol):
    """Where the segments of a store are, and where their remains go."""

    directory: Path
    """The name of the place in errors and in the log."""

    def bodies(self, source: Source, pause: Callable[[], None]) -> Bodies:
        """All bodies of a segment in order; rests now and then. On the thread."""
        ...

    def writer(self, sources: list[Source], revision: int) -> SurvivorWriter:
        """A writer for the remains of neighbouring segments. On the thread."""
        ...

    def delete(self, names: list[str]) -> None:
        """Free the space of segments. On the thread."""
        ...

    def forget(self, names: list[str], then: Callable[[], None]) -> None:
        """Run `then`, on any thread, when no earlier request still reads them."""
        ...


class Survivors:
    """The result: a file or table, and how it differs from "every body in it is needed once"."""

    def __init__(self, writer: SurvivorWriter) -> None:
        self.writer = writer
        self.retained = array("Q")
        self.retained_lengths = array("I")
        self.released = array("Q")
        self.shared_bytes = 0

    def add(self, position: int, body: bytes, count: int, base: int) -> None:
        """A body that this many messages use."""
        self.writer.add(position, body)
        if not count:
            self.released.append(position - base)
            return
        length = len(body) - BODY_CRC_BYTES
        self.retained.extend([position - base] * (count - 1))
        self.retained_lengths.extend([length] * (count - 1))
        self.shared_bytes += length * (count - 1)


def shared_bytes(source: Source) -> int:
    """How much of the live bytes of a source is counted more than once."""
    lengths = dict(zip(source.retained, source.retained_lengths, strict=True))
    holders = Counter(source.retained)
    for distance in source.released:
        if distance in lengths:
            holders[distance] -= 1
    counted_from = source.counted_from - source.base
    return sum(
        max(0, count - (distance < counted_from)) * lengths[distance]
        for distance, count in holders.items()
    )


class Copying:
    """Copies the needed bodies of neighbouring segments into a new place."""

    def __init__(self, place: CompactionPlace, held: set[int], pause: Callable[[], None]) -> None:
        self._place = place
        self._held = held
        self._pause = pause
        self.at = ""
        """The segment that is being read."""

    def run(self, sources: list[Source], revision: int) -> Survivors:
        """The new file or table, durable; raises StoreCorrupt or the engine's error."""
        base = sources[0].base
        writer = self._place.writer(sources, revision)
        survivors = Survivors(writer)
        try:
            for source in sources:
                self._copy(source, base, survivors)
            writer.finish()
        except BaseException:
            writer.drop()
            raise
        return survivors

    def _copy(self, source: Source, base: int, survivors: Survivors) -> None:
        self.at = source.name
        needs = Needs(source)
        needed_bytes = 0
        for position, length, take in self._place.bodies(source, self._pause):
            count = needs.count(position)
            needed_bytes += max(0, count) * length
            if count < 0:
                raise self._unaccounted(source, f"a body at {position:#x} was released too often")
            if not count and position not in self._held:
                continue
            body = take()
            if len(body) != BODY_CRC_BYTES + length or not is_intact(body):
                raise self._unaccounted(source, f"the body at {position:#x} fails its checksum")
            survivors.add(position, body, count, base)
        if needed_bytes != source.live:
            raise self._unaccounted(
                source, f"{needed_bytes} bytes in it are needed, but {source.live} were counted"
            )

    def _unaccounted(self, source: Source, why: str) -> StoreCorrupt:
        return StoreCorrupt.at(
            self._place.directory / source.name, None, f"it is left as it is, since {why}."
        )
