"""What compaction keeps: the bodies of some segments that are still needed, copied into one file.

Owns the copying and its proof: the bodies found needed must add up to what the table counted, and
each must be what its checksum says, or the segments stay as they are. Runs on the compactor's
thread, from a copy of the account, while the loop goes on; touches no table.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from partibus.domain.errors import StoreCorrupt
from partibus.store.compaction.kept import KeptWriter, is_intact, read_index
from partibus.store.disk import Disk
from partibus.store.record import (
    BODY_CRC_BYTES,
    ENTRY_HEADER_BYTES,
    ROW_BYTES,
    unpack_header,
    unpack_rows,
)
from partibus.store.segment import SEGMENT_HEADER_BYTES
from partibus.store.table import Segment

# Between two pauses no more than about this is read, and no more than that passed over.
SLICE_BYTES: Final = 1 << 20
PASSED_BYTES: Final = 16 << 20

# What is read at once; an entry that is larger is skipped but for its rows and live bodies.
WINDOW_BYTES: Final = 64 << 10


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
        """How many holders a body has."""
        distance = position - self._base
        if self._gone or not self._net:
            return int(position >= self._counted_from and distance not in self._gone)
        return int(position >= self._counted_from) + self._net[distance]


class Survivors:
    """The outcome: a file, and how it differs from "every body in it is needed once"."""

    def __init__(self, writer: KeptWriter) -> None:
        self.writer = writer
        self.retained = array("Q")
        self.retained_lengths = array("I")
        self.released = array("Q")
        self.shared_bytes = 0

    def add(self, position: int, body: bytes, count: int, base: int) -> None:
        """A body with this many holders."""
        self.writer.add(position, body)
        if not count:
            self.released.append(position - base)
            return
        length = len(body) - BODY_CRC_BYTES
        self.retained.extend([position - base] * (count - 1))
        self.retained_lengths.extend([length] * (count - 1))
        self.shared_bytes += length * (count - 1)


def shared_bytes(source: Source) -> int:
    """How much of what is live in a source is counted more than once."""
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
    """Copies the needed bodies of neighbouring segments into a new file."""

    def __init__(
        self,
        disk: Disk,
        directory: Path,
        store_id: bytes,
        seed: int,
        held: set[int],
        pause: Callable[[], None],
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._store_id = store_id
        self._seed = seed
        self._held = held
        self._pause = pause
        self.at = ""
        """The file that is being read."""

    def run(self, sources: list[Source], generation: int) -> Survivors:
        """The file under its name; StoreCorrupt or OSError when it could not be made."""
        base, end = sources[0].base, sources[-1].end
        writer = KeptWriter(self._disk, self._directory, self._store_id, base, end, generation)
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
        for position, length, take in self._bodies(source):
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
            self._directory / source.name, None, f"it is left as it is, since {why}."
        )

    def _bodies(self, source: Source) -> Iterator[tuple[int, int, Callable[[], bytes]]]:
        """Position, length, and how to get the bytes with their checksum."""
        fd = self._disk.open(self._directory / source.name, writable=False)
        try:
            found = self._kept_bodies if source.is_kept else self._logged_bodies
            yield from found(fd, source)
        finally:
            self._disk.close(fd)

    def _kept_bodies(
        self, fd: int, source: Source
    ) -> Iterator[tuple[int, int, Callable[[], bytes]]]:
        read_bytes = 0
        for body in read_index(self._disk, self._directory, source.name, self._store_id):
            read_bytes += body.length
            if read_bytes > SLICE_BYTES:
                read_bytes = 0
                self._pause()
            take = partial(self._disk.read, fd, BODY_CRC_BYTES + body.length, body.offset)
            yield body.position, body.length, take

    def _logged_bodies(
        self, fd: int, source: Source
    ) -> Iterator[tuple[int, int, Callable[[], bytes]]]:
        """From the rows of each entry; what is not needed is passed over, also by the disk.

        The checksum of a whole entry is not asked: what is found must add up, body by body."""
        window = Window(self._disk, fd, source)
        position = source.base + SEGMENT_HEADER_BYTES
        paused_at = position
        while position + ENTRY_HEADER_BYTES <= source.end:
            header = unpack_header(self._seed, window.read(position, ENTRY_HEADER_BYTES), 0)
            if header is None or header.position != position:
                return
            rows_at = position + ENTRY_HEADER_BYTES
            rows = window.read(rows_at, ROW_BYTES * header.count)
            at = rows_at + len(rows) + sum([row[1] for row in unpack_rows(rows)])
            for _, _, length, _ in unpack_rows(rows):
                if length:
                    take = partial(window.read, at, BODY_CRC_BYTES + length)
                    at += BODY_CRC_BYTES + length
                    yield at - length, length, take
            position = rows_at + header.length
            if window.read_bytes > SLICE_BYTES or position - paused_at > PASSED_BYTES:
                window.read_bytes = 0
                paused_at = position
                self._pause()


class Window:
    """A piece of a segment in memory, which moves with the reads."""

    __slots__ = ("_at", "_data", "_disk", "_fd", "_source", "read_bytes")

    def __init__(self, disk: Disk, fd: int, source: Source) -> None:
        self._disk = disk
        self._fd = fd
        self._source = source
        self._at = 0
        self._data = b""
        self.read_bytes = 0

    def read(self, position: int, length: int) -> bytes:
        """Bytes of the log; fewer when the segment ends before."""
        first = position - self._at
        if first < 0 or first + length > len(self._data):
            wanted = max(length, WINDOW_BYTES)
            wanted = min(wanted, self._source.end - position)
            self._data = self._disk.read(self._fd, wanted, position - self._source.base)
            self._at = position
            self.read_bytes += len(self._data)
            first = 0
        return self._data[first : first + length]
