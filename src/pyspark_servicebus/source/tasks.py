"""What one task reads, and the reading of it in an executor.

Owns the partition that is sent to a task and the reading of its messages. A partition contains an
`Access` with a token for its entity, never the key that signed it. An interrupted read continues
after its last message, wherever the bus is by then.
"""

import gc
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from partibus.domain import conditions
from partibus.domain.sequence import number_of
from pyspark_servicebus.access import Access
from pyspark_servicebus.bus import Flight, discover
from pyspark_servicebus.errors import Backoff, BulkError, DataLoss, LossAdvice
from pyspark_servicebus.source.decode import Decoder
from pyspark_servicebus.source.planning import Slice, group, split
from pyspark_servicebus.source.reading import Reading

_flights: dict[tuple[str, str], Flight] = {}
"""Connections of this worker process, which runs one task after another."""
_spared: list[bool] = []


@dataclass(frozen=True, slots=True)
class Piece:
    """One slice and its location when the task was planned."""

    part: Slice
    location: str | None
    entity: str


class Task(InputPartition):
    """What one task reads; each transport and mode has its own kind."""

    def read(self, columns: Sequence[str], advice: LossAdvice | None) -> Iterator[pa.RecordBatch]:
        """Its messages; those lost since it was planned are an error, unless no advice is given."""
        raise NotImplementedError


def read_task(
    partition: InputPartition, columns: Sequence[str], advice: LossAdvice | None
) -> Iterator[pa.RecordBatch]:
    """The messages of one task; Spark runs one even for a read without partitions."""
    return partition.read(columns, advice) if isinstance(partition, Task) else iter(())


@dataclass(eq=False, repr=False)
class BusPartition(Task):
    """Slices of fragments; its token is not shown."""

    pieces: list[Piece]
    access: Access
    ticket: dict[str, Any]

    def read(self, columns: Sequence[str], advice: LossAdvice | None) -> Iterator[pa.RecordBatch]:
        _spare_collector()
        decoders: dict[str, Decoder] = {}
        for piece in self.pieces:
            decoder = decoders.get(piece.entity)
            if decoder is None:
                decoder = decoders[piece.entity] = Decoder(columns, piece.entity)
            part, count = piece.part, 0
            for batch, looked_at in _read_piece(self, piece, decoder.form):
                count += looked_at
                if batch.num_rows:
                    yield decoder.batch(batch)
            if advice is not None and 0 <= part.count != count:
                raise _loss(piece, count, advice)

    def __repr__(self) -> str:
        parts = (f"{p.entity} {p.part.fragment}:{p.part.first}-{p.part.last}" for p in self.pieces)
        return f"BusPartition({', '.join(parts)})"


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
    """The partitions of a read of one entity."""
    named = [replace(part, entity=reading.entity.path) for part in slices]
    return plan_tasks_of([reading], named, ticket)


def plan_tasks_of(
    readings: Sequence[Reading], slices: list[Slice], ticket: dict[str, Any]
) -> list[InputPartition]:
    """The partitions of a read of several entities, whose slices name them."""
    if not slices:
        return []
    options, access = readings[0].options, readings[0].access
    places = {reading.entity.path: reading.entity.locations for reading in readings}
    whole = {**ticket, **options.selection.ticket()}
    return [
        BusPartition(
            [Piece(part, places[part.entity].get(part.fragment), part.entity) for part in task],
            access,
            whole,
        )
        for task in group(split(slices, options.partitions_min), options.partitions_min)
    ]


def _loss(piece: Piece, count: int, advice: LossAdvice) -> DataLoss:
    part = piece.part
    return DataLoss(
        "MESSAGES_GONE",
        f"Fragment {part.fragment} of '{piece.entity}' gave {count} messages from {part.first} to "
        f"{part.last}, where {part.count} were planned: the others expired or were discarded.",
        "Raise the retention of the cursor",
        advice,
        entity=piece.entity,
        fragment=part.fragment,
        first=part.first,
        last=part.last,
        planned=part.count,
        found=count,
    )


def _spare_collector() -> None:
    """Exclude imported modules from the garbage collections of this worker, once.

    Spark collects after every task, which would otherwise take as long as a few thousand messages.
    """
    if not _spared:
        gc.freeze()
        _spared.append(True)


def _read_piece(
    partition: BusPartition, piece: Piece, form: str
) -> Iterator[tuple[pa.RecordBatch, int]]:
    """The batches of one slice, with the number of messages that were checked for each.

    Waits for an unreachable bus.
    """
    access, part, location = partition.access, piece.part, piece.location
    flight = flight_of(piece.entity, access)
    backoff = Backoff(access.retry_s)
    first = part.first
    while True:
        try:
            if location is None:
                raise BulkError(
                    conditions.PARTIBUS_UNREACHABLE, "The fragment's worker is down.", True
                )
            place = {"fragment": part.fragment, "from": first, "to": part.last, "form": form}
            ticket = {**partition.ticket, **place}
            for batch, reported in flight.chunks(location, **ticket):
                yield batch, batch.num_rows if reported is None else reported["read"]
                if reported is not None:
                    first = reported["next"]
                elif batch.num_rows:
                    first = number_of(batch.column(0)[-1].as_py()) + 1
                backoff.reset()
            return
        except BulkError as error:
            backoff.wait_or_raise(error)
        location = _where(access, piece)


def _where(access: Access, piece: Piece) -> str | None:
    """Where a fragment is now; None while that is unknown."""
    try:
        return discover(access, piece.entity).locations.get(piece.part.fragment)
    except BulkError as error:
        if not error.retryable:
            raise
        return None
