"""Writes whose nodes are killed and drained between their batches: each promise is kept."""

from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, LongType, StructType

from partibus.domain.partition_key import fragment_index
from pyspark_servicebus.options import sink_options
from pyspark_servicebus.sink.writers import BatchWriter
from spark.nodes.stand import FRAGMENTS, Stand, check
from spark.source.driving import Log, Query
from support.nodes.cluster import ClusterNode

pytestmark = [
    pytest.mark.group("spark"),
    pytest.mark.group("postgres"),
    pytest.mark.xdist_group("spark"),
]

SCHEMA = StructType().add("body", BinaryType()).add("number", LongType())
BATCHES = 6
ROWS = 200

Act = Callable[[], None]


def batches(acts: dict[int, Act]) -> Iterator[pa.RecordBatch]:
    """Numbered rows; before some of the batches something happens."""
    for batch in range(BATCHES):
        acts.get(batch, lambda: None)()
        numbers = range(batch * ROWS, (batch + 1) * ROWS)
        columns = {"body": [b"%d" % n for n in numbers], "number": list(numbers)}
        yield pa.RecordBatch.from_pydict(columns)


ALL = {str(number) for number in range(BATCHES * ROWS)}


def acts(stand: Stand, victim: Callable[[], ClusterNode]) -> dict[int, Act]:
    def kill() -> None:
        node = victim()
        number = node.number
        node.sigkill()
        stand.await_moved(number)
        node.start()

    return {2: kill, 4: lambda: stand.drain(victim())}


def found(stand: Stand, queue: str) -> list[str]:
    """The bodies of a queue, read at its owners."""
    query = Query(Log(), stand.options(queue, mode="peek"), available_now=True)
    rows = query.drain()
    query.stop()
    return [bytes(row["body"]).decode() for row in rows]


def test_a_staged_batch_is_published_once(stand: Stand) -> None:
    """The home of its stages moves while the task writes, and again before it is published."""
    queue = stand.queue()
    given = stand.options(queue, deliver="staged", writer="w", batchId="b", batchBytes="4kb")
    home = fragment_index("w", FRAGMENTS)
    owner = lambda: stand.owner_of(queue, home)  # noqa: E731
    options = sink_options(given | {"extraColumns": "properties"})
    for attempt in range(2):  # the second time it was published before
        writer = BatchWriter(options, SCHEMA)
        done = writer.write(batches(acts(stand, owner) if attempt == 0 else {}))
        stand.heal()
        stand.drain(owner())
        writer.commit([done])
    stand.await_left(queue, BATCHES * ROWS, 0, 0)
    check(found(stand, queue), ALL, ALL)


def test_a_write_with_detection_is_there_once(stand: Stand) -> None:
    """A task that is tried again, and batches without an answer that are sent again."""
    owner = lambda: stand.owner_of("once", 0)  # noqa: E731
    given = stand.options("once", deliver="dedup", dedupKey="number", batchBytes="4kb")
    options = sink_options(given | {"extraColumns": "properties"})
    for attempt in range(2):
        writer = BatchWriter(options, SCHEMA)
        done = writer.write(batches(acts(stand, owner) if attempt == 0 else {}))
        writer.commit([done])
    stand.heal()
    stand.await_left("once", BATCHES * ROWS, 0, 0)
    check(found(stand, "once"), ALL, ALL)
