"""What one task reads over AMQP, and the reading of it in an executor.

Owns the partitions that are sent to executors: ranges of sequence numbers, everything, a set of
numbers that the driver has deferred, or messages that it has locked. They contain an `Access` with
a token, never the key. Reading is peeking: it can be repeated, and returns the same messages as
long as they exist.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from pyspark_servicebus.errors import Backoff, DataLoss, LossAdvice
from pyspark_servicebus.over_amqp.browse import PAGE_MESSAGES, Page, walk_all, walk_range, walk_set
from pyspark_servicebus.over_amqp.by_number import look_by_number
from pyspark_servicebus.over_amqp.holding import CLAIM_PROPERTY, DEFERRED, Place
from pyspark_servicebus.over_amqp.ranges import Range
from pyspark_servicebus.over_amqp.wire import Wire, wire_of
from pyspark_servicebus.schema import LOCK_COLUMN
from pyspark_servicebus.source.decode import Decoder
from pyspark_servicebus.source.tasks import Task


@dataclass(eq=False, repr=False)
class RangePartition(Task):
    """Ranges of numbers; no ranges mean everything."""

    place: Place
    ranges: Sequence[Range] | None

    def read(self, columns: Sequence[str], advice: LossAdvice | None) -> Iterator[pa.RecordBatch]:
        place = self.place
        wire = wire_of(place.access)
        decoder = Decoder(columns, place.entity)
        pages: Iterable[Page]
        if self.ranges is None:
            pages = walk_all(wire, place.path)
        else:
            pages = itertools.chain.from_iterable(
                walk_range(wire, place.path, first, last) for first, last in self.ranges
            )
        for page in pages:
            yield decoder.table([message for _, message in page])

    def __repr__(self) -> str:
        return f"RangePartition({self.place.path}, {self.ranges or 'all'})"


@dataclass(eq=False, repr=False)
class SetPartition(Task):
    """Deferred messages by their numbers."""

    place: Place
    numbers: Sequence[int]

    def read(self, columns: Sequence[str], advice: LossAdvice | None) -> Iterator[pa.RecordBatch]:
        place = self.place
        wire = wire_of(place.access)
        decoder = Decoder(columns, place.entity)
        missing = set(self.numbers)
        backoff = Backoff(place.access.retry_s)
        while missing:
            for page in _pages(wire, place.path, sorted(missing)):
                missing.difference_update(number for number, _ in page)
                backoff.reset()
                table = decoder.table([message for _, message in page], hidden=CLAIM_PROPERTY)
                yield _all_deferred(table)
            # A fragment whose store is down returns nothing; it may be back soon.
            if missing and not backoff.wait():
                break
        if missing and advice is not None:
            raise _loss(place.path, missing, advice)

    def __repr__(self) -> str:
        return f"SetPartition({self.place.path}, {len(self.numbers)} messages)"


@dataclass(eq=False, repr=False)
class LockedPartition(Task):
    """Locked messages as received: they could not be read again with certainty."""

    entity: str
    messages: Sequence[bytes]
    tokens: Sequence[str]

    def read(self, columns: Sequence[str], advice: LossAdvice | None) -> Iterator[pa.RecordBatch]:
        decoder = Decoder([name for name in columns if name != LOCK_COLUMN], self.entity)
        for at in range(0, len(self.messages), PAGE_MESSAGES):
            table = decoder.table(self.messages[at : at + PAGE_MESSAGES])
            tokens = pa.array(self.tokens[at : at + PAGE_MESSAGES], pa.string())
            arrays = [tokens if name == LOCK_COLUMN else table.column(name) for name in columns]
            yield pa.RecordBatch.from_arrays(arrays, names=list(columns))

    def __repr__(self) -> str:
        return f"LockedPartition({self.entity}, {len(self.messages)} messages)"


def _loss(path: str, missing: set[int], advice: LossAdvice) -> DataLoss:
    return DataLoss(
        "MESSAGES_GONE",
        f"{len(missing)} messages of '{path}' that were deferred for this query are no longer "
        f"there, {min(missing)} among them: they expired, or others have received them by their "
        "numbers.",
        "Give messages a longer time to live",
        advice,
        entity=path,
        messages=len(missing),
        sequenceNumber=min(missing),
    )


def _all_deferred(table: pa.RecordBatch) -> pa.RecordBatch:
    """The same whichever way they were read: a locked message shows no state."""
    if "state" not in table.schema.names:
        return table
    states = pa.array([DEFERRED] * table.num_rows, pa.string())
    return table.set_column(table.schema.get_field_index("state"), "state", states)


def _pages(wire: Wire, path: str, numbers: Sequence[int]) -> Iterator[Page]:
    """What a peek returns of these, and then those that it missed although they exist."""
    missing = set(numbers)
    for page in walk_set(wire, path, numbers):
        missing.difference_update(number for number, _ in page)
        yield page
    if missing and (found := look_by_number(wire, path, sorted(missing))):
        yield found
