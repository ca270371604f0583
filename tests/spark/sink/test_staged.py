"""`deliver=staged`: whatever fails, and however often, every row is a message once."""

import json
import os
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from azure.servicebus.management import ServiceBusAdministrationClient
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import LongType, StringType, StructField, StructType

from conformance.settlement.steps import until
from partibus.domain.partition_key import fragment_index
from pyspark_servicebus.errors import BulkError
from pyspark_servicebus.options import sink_options
from pyspark_servicebus.sink.writers import BatchWriter
from spark.bus import FRAGMENTS, Bus, once_each
from spark.faulty import fails_once
from spark.sink.test_sink import bodies, numbers, write
from support.receiving import collect
from support.server import ServerProcess

pytestmark = [pytest.mark.group("spark"), pytest.mark.xdist_group("spark")]
HOME = fragment_index("job", FRAGMENTS)


def staged(bus: Bus, queue: str, **given: object) -> dict[str, str]:
    return bus.options(queue, deliver="staged", **{"writer": "job", **given})


def names(count: int, first: int = 0) -> list[str]:
    return [f"{n:06d}" for n in range(first, first + count)]


def arrived(bus: Bus, queue: str, expected: list[str]) -> None:
    """All of it has come, once; and nothing is staged or on its way any more."""

    def is_quiet() -> bool:
        totals = bus.totals(queue)
        return totals["active"] >= len(expected) and not totals["staged"] + totals["transfer"]

    until(f"{len(expected)} messages to be in {queue}", is_quiet)
    once_each(bodies(bus, queue), expected)


# --- batches --------------------------------------------------------------------------------------


def test_a_job_that_is_done_again_writes_once(spark: SparkSession, bus: Bus) -> None:
    queue = bus.queue()
    for _ in range(2):
        write(numbers(spark, 40), staged(bus, queue, batchId="monday", batchBytes=500))
    arrived(bus, queue, names(40))
    fragments = {message.sequence_number >> 48 for message in bus.peek(queue)}
    assert len(fragments) == FRAGMENTS
    # Without an id each is a batch of its own.
    write(numbers(spark, 40), staged(bus, queue))
    arrived(bus, queue, names(40) * 2)


def test_a_write_that_fails_in_the_middle(spark: SparkSession, bus: Bus, tmp_path: Path) -> None:
    queue, marker = bus.queue(), tmp_path / "failed"
    frame = numbers(spark, 200, slices=1).withColumn("body", f.rpad("body", 4000, "."))
    broken = frame.mapInArrow(fails_once(str(marker), 190), frame.schema)
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 5)
    try:
        write(broken, staged(bus, queue, batchBytes=4000))
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert marker.exists()
    arrived(bus, queue, [name.ljust(4000, ".") for name in names(200)])


def dies_once(marker: str) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Passes rows on, and takes its process with it in the middle of the first task."""

    def passed_on(batches: Iterator[Any]) -> Iterator[Any]:
        import os
        from pathlib import Path

        for batch in batches:
            yield batch
            if not Path(marker).exists():
                Path(marker).touch()
                os._exit(1)

    passed_on.__module__ = "__main__"
    return passed_on


def test_an_executor_that_dies(spark: SparkSession, bus: Bus, tmp_path: Path) -> None:
    queue, marker = bus.queue(), tmp_path / "died"
    frame = numbers(spark, 100)
    write(frame.mapInArrow(dies_once(str(marker)), frame.schema), staged(bus, queue))
    assert marker.exists()
    arrived(bus, queue, names(100))


def test_a_job_that_fails_is_not_seen(spark: SparkSession, bus: Bus) -> None:
    queue = bus.queue()
    bad = numbers(spark, 10).withColumn("time_to_live_ms", f.when(f.col("body") == "000009", -1))
    with pytest.raises(PySparkException, match="time_to_live_ms is -1"):
        write(bad, staged(bus, queue, batchId="monday", batchBytes=10))
    assert bus.totals(queue)["active"] == 0
    # What it had staged makes room when the job is done at last.
    write(numbers(spark, 10), staged(bus, queue, batchId="monday"))
    arrived(bus, queue, names(10))


# --- streams --------------------------------------------------------------------------------------


def stream(frame: DataFrame, options: dict[str, str], checkpoint: Path) -> None:
    writer = frame.writeStream.format("servicebus").options(**options)
    writer = writer.option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()


def test_a_batch_that_a_driver_does_again_is_published_once(
    spark: SparkSession, bus: Bus, tmp_path: Path
) -> None:
    source, queue = bus.queue(), bus.queue()
    sent = bus.fill(source, 50)
    read = bus.options(source, mode="cursor", cursor="c", maxMessagesPerTrigger=20)
    frame = spark.readStream.format("servicebus").options(**read).load().select("body")
    checkpoint = tmp_path / "checkpoint"
    stream(frame, staged(bus, queue), checkpoint)
    arrived(bus, queue, sent)
    # The driver was killed after the publication, before it could write it down.
    last = max(int(path.name) for path in (checkpoint / "commits").iterdir() if path.name.isdigit())
    for path in (checkpoint / "commits" / f"{last}", checkpoint / "commits" / f".{last}.crc"):
        path.unlink()
    sent += bus.fill(source, 30, first=50)
    stream(frame, staged(bus, queue), checkpoint)
    arrived(bus, queue, sent)
    # Another checkpoint counts its batches again: they are not taken for those of the first.
    other = spark.readStream.format("servicebus").options(**{**read, "cursor": "d"}).load()
    stream(other.select("body"), staged(bus, queue), tmp_path / "other")
    arrived(bus, queue, sent * 2)


def test_from_one_queue_to_another(spark: SparkSession, bus: Bus, tmp_path: Path) -> None:
    source, queue = bus.queue(), bus.queue()
    sent = bus.fill(source, 50)
    read = bus.options(source, mode="claim", claimOwner="job", maxMessagesPerTrigger=20)
    frame = spark.readStream.format("servicebus").options(**read).load().select("body")
    stream(frame, staged(bus, queue), tmp_path)
    arrived(bus, queue, sent)
    assert bus.left(source) == (0, 0, 0)


# --- without Spark, where every moment can be chosen ----------------------------------------------

SCHEMA = StructType(
    [
        StructField("body", StringType()),
        StructField("partition_key", StringType()),
        StructField("target", StringType()),
        StructField("time_to_live_ms", LongType()),
    ]
)


def task(writer: BatchWriter, *rows: str | dict[str, Any]) -> Any:
    """One task in an executor."""
    copy = pickle.loads(pickle.dumps(writer))  # noqa: S301 - our own bytes
    filled = [row if isinstance(row, dict) else {"body": row} for row in rows]
    columns = {name: [row.get(name) for row in filled] for name in SCHEMA.names}
    types = (pa.string(), pa.string(), pa.string(), pa.int64())
    schema = pa.schema(list(zip(SCHEMA.names, types, strict=True)))
    return copy.write(iter([pa.RecordBatch.from_pydict(columns, schema=schema)]))


def job(bus: Bus, queue: str, **given: object) -> BatchWriter:
    return BatchWriter(sink_options(staged(bus, queue, **given)), SCHEMA)


def test_the_order_of_a_key_is_that_of_its_rows(bus: Bus) -> None:
    queue = bus.queue()
    for first in (0, 300):
        writer = job(bus, queue, batchBytes=700)
        rows = [{"body": name, "partition_key": name[-1]} for name in names(300, first)]
        writer.commit([task(writer, *rows)])
    arrived(bus, queue, names(600))
    for digit in "0123456789":
        mine = [str(m) for m in bus.peek(queue) if m.partition_key == digit]
        assert mine == sorted(mine)


def test_targets_and_bad_rows_are_part_of_the_batch(bus: Bus) -> None:
    queue, other, bad = bus.queue(), bus.queue("plain"), bus.queue("plain")
    rows = [
        *names(5),
        *({"body": name, "target": other} for name in names(3, 5)),
        {"body": "lost", "target": "nowhere"},
        {"body": "brief", "time_to_live_ms": -1},
    ]
    writer = job(bus, queue, badRowQueue=bad)
    done = task(writer, *rows)
    assert (done.rows, done.accepted, done.bad) == (10, 8, 2)
    assert bus.totals(bad)["active"] == 0
    writer.commit([done])
    arrived(bus, queue, names(5))
    arrived(bus, other, names(3, 5))
    until("both bad rows to be there", lambda: bus.totals(bad)["active"] == 2)
    told = [json.loads(str(message)) for message in bus.peek(bad)]
    assert sorted(row["target"] for row in told) == ["nowhere", queue]


def test_a_topic_gets_a_batch_once(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(bus.server.ready.ca))
    with ServiceBusAdministrationClient.from_connection_string(bus.connection_string) as admin:
        admin.create_topic("staged-news", enable_partitioning=True)
        for name in ("one", "two"):
            admin.create_subscription("staged-news", name)
    options = {**staged(bus, "", batchId="monday"), "topic": "staged-news"}
    del options["queue"]
    for _ in range(2):
        writer = BatchWriter(sink_options(options), SCHEMA)
        writer.commit([task(writer, *names(30))])
    for name in ("one", "two"):
        with bus.client.get_subscription_receiver("staged-news", name) as receiver:
            once_each(map(str, collect(receiver, 30)), names(30))
        assert bus.totals(f"staged-news/Subscriptions/{name}")["active"] == 30


def test_a_home_that_is_down_is_waited_for(bus: Bus) -> None:
    queue = bus.queue()
    writer = job(bus, queue, retryDuration="300ms")
    first = task(writer, "a")
    bus.operator.break_store(bus.operator.placement(queue)[HOME])
    for attempt in (lambda: task(writer, "b"), lambda: writer.commit([first])):
        with pytest.raises(BulkError, match="store of this fragment is down") as caught:
            attempt()
        assert caught.value.retryable
    bus.operator.mend_all()
    writer.commit([first, task(writer, "b")])
    arrived(bus, queue, ["a", "b"])


def test_a_bus_that_is_killed_while_a_task_writes(tmp_path: Path) -> None:
    config = tmp_path / "namespace.toml"
    config.write_text('[[queue]]\nname = "q"\nenable_partitioning = true\npartition_count = 4\n')
    with ServerProcess(tmp_path, config, "--stores", "2") as server, Bus(server) as bus:
        writer = job(bus, "q", batchBytes=100)
        schema = pa.schema([("body", pa.string())])

        def batches() -> Iterator[pa.RecordBatch]:
            for first in range(0, 400, 100):
                if first == 200:
                    server.restart()
                rows = {"body": names(100, first)}
                yield pa.RecordBatch.from_pydict(rows, schema=schema)

        done = writer.write(batches())
        server.restart()
        writer.commit([done])
        server.restart()
        writer.commit([done])
        arrived(bus, "q", names(400))


def test_a_driver_that_was_believed_dead(bus: Bus) -> None:
    queue = bus.queue()
    old = job(bus, queue, batchId="monday")
    done = [task(old, "a", "b"), task(old, "c")]
    new = job(bus, queue, batchId="monday")
    again = [task(new, "a", "b"), task(new, "c")]
    with pytest.raises(BulkError, match="must stop"):
        old.commit(done)
    with pytest.raises(BulkError, match="must stop"):
        task(old, "d")
    new.commit(again)
    new.commit(again)
    arrived(bus, queue, ["a", "b", "c"])


def test_only_the_tries_that_are_committed_are_published(bus: Bus) -> None:
    queue = bus.queue()
    writer = job(bus, queue)
    speculative = task(writer, "a", "b")
    done = [task(writer, "a", "b"), task(writer, "c")]
    assert speculative.stages
    writer.commit(done)
    arrived(bus, queue, ["a", "b", "c"])
    with pytest.raises(BulkError, match="has ended"):
        task(writer, "straggler")


def test_an_aborted_job_leaves_no_stage(bus: Bus) -> None:
    queue = bus.queue()
    writer = job(bus, queue)
    done = task(writer, "a", "b")
    assert bus.totals(queue)["staged"] == 2
    writer.abort([done, None])
    assert bus.totals(queue)["staged"] == 0
    with pytest.raises(BulkError, match="has ended"):
        writer.commit([done])


def test_a_job_without_rows_publishes_nothing(bus: Bus) -> None:
    writer = job(bus, bus.queue())
    writer.commit([task(writer), None])


def test_nothing_secret_travels(bus: Bus) -> None:
    writer = job(bus, bus.queue())
    key = os.fsencode(bus.connection_string.partition("SharedAccessKey=")[2].partition(";")[0])
    assert key not in pickle.dumps(writer)
