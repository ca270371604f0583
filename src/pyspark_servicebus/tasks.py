"""What one task reads, and the reading of it in an executor.

Owns the partition that travels to a task and the way of its messages. A partition carries an
`Access` with a token for its entity, never the key that signed it. A read that breaks off goes
on behind the last message it gave, wherever the bus is by then.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from pyspark_servicebus.access import Access
from pyspark_servicebus.bus import Flight, discover
from pyspark_servicebus.decode import Decoder
from pyspark_servicebus.errors import BulkError, DataLoss, Patience
from pyspark_servicebus.planning import Slice, group, split
from pyspark_servicebus.reading import Reading

_NUMBER_MASK: Final = (1 << 48) - 1
_flights: dict[tuple[str, str], Flight] = {}
"""Connections of this worker process, which Spark uses for one task after another."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One slice and where it was when the task was planned."""

    part: Slice
    location: str | None


class BusPartition(InputPartition):
    """What one task reads; its token is not shown."""

    def __init__(
        self, entity: str, pieces: list[Piece], access: Access, ticket: dict[str, Any]
    ) -> None:
        super().__init__(None)
        self.entity = entity
        self.pieces = pieces
        self.access = access
        self.ticket = ticket

    def __repr__(self) -> str:
        parts = ", ".join(f"{p.part.fragment}:{p.part.first}-{p.part.last}" for p in self.pieces)
        return f"BusPartition({self.entity}, {parts})"


def flight_of(entity: str, access: Access) -> Flight:
    """The connections of this process to an entity, with the token of this task."""
    place = (access.http_url, entity)
    known = _flights.get(place)
    if known is None or known.access.ca != access.ca:
        known = _flights[place] = Flight(entity, access)
    known.access = access
    return known


def plan_tasks(
    reading: Reading, slices: list[Slice], ticket: dict[str, Any]
) -> list[InputPartition]:
    """The partitions of a read."""
    parts = split(slices, reading.options.partitions_min)
    entity = reading.entity
    return [
        BusPartition(
            entity.path,
            [Piece(part, entity.locations.get(part.fragment)) for part in task],
            reading.access,
            ticket,
        )
        for task in group(parts, reading.options.partitions_min)
    ]


def read_partition(
    partition: BusPartition, columns: tuple[str, ...], fails_on_data_loss: bool
) -> Iterator[pa.RecordBatch]:
    """The messages of a task; a range that has lost messages since it was planned is an error."""
    decoder = Decoder(columns, partition.entity)
    for piece in partition.pieces:
        part = piece.part
        count = 0
        for batch in _read_piece(partition, piece):
            count += batch.num_rows
            yield decoder.batch(batch)
        if fails_on_data_loss and 0 <= part.count != count:
            raise DataLoss(
                f"Fragment {part.fragment} of '{partition.entity}' gave {count} messages from "
                f"{part.first} to {part.last}, where {part.count} were planned. They expired or "
                "were let go: raise the retention of the cursor, or set failOnDataLoss=false."
            )


def _read_piece(partition: BusPartition, piece: Piece) -> Iterator[pa.RecordBatch]:
    """The batches of one slice; a bus that is away is waited for."""
    access, part, location = partition.access, piece.part, piece.location
    flight = flight_of(partition.entity, access)
    patience = Patience(access.patience_s)
    first = part.first
    while True:
        try:
            if location is None:
                raise BulkError("partibus:unreachable", "The fragment's worker is down.", True)
            ticket = {**partition.ticket, "fragment": part.fragment, "from": first, "to": part.last}
            for batch in flight.read(location, **ticket):
                if batch.num_rows:
                    yield batch
                    first = (batch.column(0)[-1].as_py() & _NUMBER_MASK) + 1
                    patience.renew()
            return
        except BulkError as error:
            patience.bear(error)
        location = _where(partition, part.fragment)


def _where(partition: BusPartition, fragment: int) -> str | None:
    """Where a fragment is now; None while that cannot be told."""
    try:
        return discover(partition.access, partition.entity).locations.get(fragment)
    except BulkError as error:
        if not error.retryable:
            raise
        return None
