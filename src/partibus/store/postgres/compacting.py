"""The tables of a lane, as compaction sees them.

Owns the reading of all bodies of a segment's table, row by row, and the table that the needed ones
move to: at their old positions, one row per body, copied within the database. In one transaction
the new table replaces the old ones, which are dropped when they are no longer read; an incomplete
table is marked as garbage and dropped by the next start. Runs on the compactor's thread. Made by
the store.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

import psycopg

from partibus.domain.errors import BusError, StoreCorrupt
from partibus.store.compaction.compacted_file import kept_segment, parse_kept_name
from partibus.store.compaction.survivors import Bodies, Source
from partibus.store.interface import Ref
from partibus.store.postgres.connection import Connection
from partibus.store.postgres.lane import Lane, SegmentRow
from partibus.store.postgres.lane_connection import LaneConnection
from partibus.store.postgres.reading import DatabaseReaders
from partibus.store.record import (
    BODY_CRC_BYTES,
    ENTRY_HEADER_BYTES,
    ROW_BYTES,
    unpack_header,
    unpack_rows,
)
from partibus.store.table import Extents, Segment

KEPT_ROW_BYTES: Final = 72
"""The size of a row besides its body: header, position, epoch, and index entry."""
KEPT_ROWS_PER_FETCH: Final = 64
COPY_BYTES: Final = 4 << 20
"""What is copied by one statement: no statement runs long, however much is kept."""


class LaneTables:
    """The segments of one lane."""

    def __init__(self, lane: Lane, readers: DatabaseReaders) -> None:
        self.directory = Path(lane.name)
        self._lane = lane
        self._readers = readers
        self._connection = LaneConnection(lane, "compact")
        self._seed = 0

    def identify(self, seed: int) -> None:
        """Set the seed of the checksums of entry headers."""
        self._seed = seed

    def load(self, connection: Connection, row: SegmentRow) -> Segment:
        """A compacted segment as the table represents it; nothing in it counts as live yet."""
        assert row.kept_until is not None
        extents, total, count = Extents(), 0, 0
        for place, length in self._lane.kept_places(connection, (row.base, row.revision)):
            extents.add(place, place - row.base, length)
            total += length - BODY_CRC_BYTES
            count += 1
        size = total + count * KEPT_ROW_BYTES
        segment = kept_segment(row.base, row.kept_until, row.revision, extents, total, size)
        segment.counted_from = row.kept_until
        return segment

    def close(self) -> None:
        """Close the connection; the compactor has ended."""
        self._connection.drop()

    def writer(self, sources: list[Source], revision: int) -> "CompactedTable":
        """A table for the remains of neighbours."""
        return CompactedTable(self._lane, self._connection.get(), sources, revision)

    def delete(self, names: list[str]) -> None:
        """Drop tables that are not needed."""
        try:
            self._lane.drop_segments(self._connection.get(), map(self._key, names))
        except (psycopg.Error, BusError):
            self._connection.drop()
            raise

    def forget(self, names: list[str], then: Callable[[], None]) -> None:
        """Drop a table once no earlier request still reads it."""
        self._readers.forget(then)

    def bodies(self, source: Source, pause: Callable[[], None]) -> Bodies:
        """All bodies of a table."""
        try:
            for position, data in self._rows(source, pause):
                if source.is_kept:
                    length = len(data) - BODY_CRC_BYTES
                    yield position + BODY_CRC_BYTES, length, partial(bytes, data)
                else:
                    yield from self._logged(source, position, data)
        except psycopg.Error:
            self._connection.drop()
            raise

    def _rows(self, source: Source, pause: Callable[[], None]) -> Iterator[tuple[int, bytes]]:
        count = KEPT_ROWS_PER_FETCH if source.is_kept else 1
        key, behind = self._key(source.name), source.base - 1
        while rows := self._lane.rows_behind(self._connection.get(), key, behind, count):
            yield from rows
            behind = rows[-1][0]
            pause()

    def _logged(self, source: Source, position: int, data: bytes) -> Bodies:
        """The bodies of the entries in one row."""
        offset = 0
        while offset < len(data):
            header = unpack_header(self._seed, data, offset)
            if header is None or header.position != position + offset:
                raise StoreCorrupt.at(
                    self.directory / source.name, None, "it is left as it is: an entry is damaged."
                )
            rows_at = offset + ENTRY_HEADER_BYTES
            rows = data[rows_at : rows_at + ROW_BYTES * header.count]
            at = rows_at + len(rows) + sum([row[1] for row in unpack_rows(rows)])
            for _, _, length, _ in unpack_rows(rows):
                if length:
                    sealed = data[at : at + BODY_CRC_BYTES + length]
                    at += len(sealed)
                    yield position + at - length, length, partial(bytes, sealed)
            offset = rows_at + header.length

    def _key(self, name: str) -> tuple[int, int]:
        return segment_key(self.directory, name)


def segment_key(directory: Path, name: str) -> tuple[int, int]:
    """Base and revision of a segment by its name in the segment table."""
    if name.endswith(".seg"):
        return int(name.removesuffix(".seg"), 16), 0
    base, _, revision = parse_kept_name(directory, name)
    return base, revision


class CompactedTable:
    """The remains of neighbouring segments; they count when `finish` has returned."""

    def __init__(
        self, lane: Lane, connection: Connection, sources: list[Source], revision: int
    ) -> None:
        self._lane = lane
        self._connection = connection
        self._ends = [source.end for source in sources]
        self._sources = [segment_key(Path(lane.name), source.name) for source in sources]
        self._target = (sources[0].base, revision)
        self._waiting: list[Ref] = []
        self._waiting_bytes = 0
        self._at = 0
        """The source of the current bodies."""
        self.extents = Extents()
        self.body_bytes = 0
        self.file_bytes = 0
        lane.begin_kept(connection, *self._target)

    def add(self, position: int, sealed_body: bytes) -> None:
        """A body after its checksum; positions ascend."""
        while position >= self._ends[self._at]:
            self._flush()
            self._at += 1
        place, length = position - BODY_CRC_BYTES, len(sealed_body)
        self.extents.add(place, place - self._target[0], length)
        self._waiting.append((place, length))
        self._waiting_bytes += length
        self.body_bytes += length - BODY_CRC_BYTES
        self.file_bytes += length - BODY_CRC_BYTES + KEPT_ROW_BYTES
        if self._waiting_bytes >= COPY_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            source = self._sources[self._at]
            self._lane.keep(self._connection, source, self._target, self._waiting)
            self._waiting, self._waiting_bytes = [], 0

    def finish(self) -> None:
        """Make the new table valid."""
        self._flush()
        self._lane.swap(self._connection, self._sources, self._target, self._ends[-1])

    def drop(self) -> None:
        """Discard it; what cannot be dropped now is garbage for the next start."""
        with suppress(psycopg.Error, BusError):
            self._lane.drop_segments(self._connection, [self._target])
