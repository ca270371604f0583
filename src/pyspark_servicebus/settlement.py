"""Settling the messages of rows: the other half of `mode=peeklock`.

Owns `settle`, which a query calls in `foreachBatch` or after a batch read. It runs as a separate
job: tasks settle by lock tokens, a hundred per request, on the management node. A lock that has
ended is counted, but not an error: its message comes back by itself.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from uuid import UUID

from partibus.domain import conditions
from pyspark_servicebus.errors import BulkError
from pyspark_servicebus.given_options import OptionsError
from pyspark_servicebus.options import source_options
from pyspark_servicebus.schema import LOCK_COLUMN

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from pyspark_servicebus.over_amqp.holding import Holding, Place

OUTCOMES: Final = {
    "complete": "completed",
    "abandon": "abandoned",
    "defer": "defered",
    "deadletter": "suspended",
}
"""The outcomes on the wire, by the names used here."""


@dataclass(frozen=True, slots=True)
class Settled:
    """The outcomes of the locks."""

    count: int
    lost: int
    """Locks that had ended, or were already settled, or whose settlement was not confirmed."""


def settle(
    frame: "DataFrame",
    outcome: str,
    options: Mapping[str, str],
    *,
    reason: str = "",
    description: str = "",
) -> Settled:
    """Settle the messages of a frame that has the columns `lock_token` and `sequence_number`.

    `options` are those of the read; `outcome` is complete, abandon, defer or deadletter, the last
    with a reason and a description."""
    from pyspark.sql import functions as f

    if outcome not in OUTCOMES:
        raise OptionsError(f"outcome: '{outcome}' is not one of {', '.join(OUTCOMES)}.")
    if missing := {LOCK_COLUMN, "sequence_number"} - set(frame.columns):
        raise OptionsError(f"settle: the frame has no column {min(missing)}; keep it in the query.")
    from pyspark_servicebus.over_amqp.holding import place_of

    found = source_options({**options, "mode": "peeklock", "transport": "amqp"}, is_stream=False)
    work = settling(place_of(found), OUTCOMES[outcome], reason, description)
    locks = frame.select(LOCK_COLUMN, "sequence_number")
    counts = locks.mapInArrow(work, "settled long, lost long").agg(f.sum("settled"), f.sum("lost"))
    row = counts.first()
    return Settled((row and row[0]) or 0, (row and row[1]) or 0)


def settling(
    place: "Place", status: str, reason: str, description: str
) -> Callable[[Iterator["pa.RecordBatch"]], Iterator["pa.RecordBatch"]]:
    """What a task does with its rows."""

    def work(batches: Iterator["pa.RecordBatch"]) -> Iterator["pa.RecordBatch"]:
        import pyarrow as pa

        from pyspark_servicebus.over_amqp.holding import Holding
        from pyspark_servicebus.over_amqp.portions import portions

        for batch in batches:
            tokens, numbers = (batch.column(i).to_pylist() for i in range(2))
            held = [
                Holding(number, 0, token) for number, token in zip(numbers, tokens, strict=True)
            ]
            done = 0
            for some in portions(held):
                done += _settle(place, some, status, reason, description)
            yield pa.RecordBatch.from_pydict({"settled": [done], "lost": [len(held) - done]})

    return work


def _settle(
    place: "Place", some: "list[Holding]", status: str, reason: str, description: str
) -> int:
    """Settle one portion; returns how many were settled.

    Those whose locks have ended are found first: a bus may settle the others of a request and
    report a failure for all.
    """
    from pyspark_servicebus.over_amqp.lock_keeper import lost_locks
    from pyspark_servicebus.over_amqp.wire import Wire, wire_of

    wire = wire_of(place.access)
    lost = {one.number for one in lost_locks(wire, place.path, some)}
    tokens = [UUID(one.token) for one in some if one.number not in lost]

    async def update(wire: Wire) -> None:
        node = await wire.management(place.path)
        await node.settle(tokens, status, reason=reason, description=description)

    try:
        if tokens:
            wire.ask(update)
    except BulkError as error:
        # An answer was lost, or a lock has just ended: nothing is confirmed.
        if error.condition != conditions.MICROSOFT_MESSAGE_LOCK_LOST:
            raise
        return 0
    return len(tokens)
