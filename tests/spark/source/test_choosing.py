"""Messages chosen by the bus: filters, sessions, patterns, pushed conditions, ends."""

import datetime
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from azure.servicebus import ServiceBusMessage
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.datasource import EqualTo, Filter, GreaterThanOrEqual, In, IsNotNull, LessThan

from pyspark_servicebus.bus import Flight
from pyspark_servicebus.errors import BulkError
from pyspark_servicebus.options import source_options
from pyspark_servicebus.source.batch_reader import BatchReader, PushingBatchReader
from spark import topics
from spark.bus import Bus, once_each, texts
from spark.source.driving import Log, Query
from spark.source.test_source import read

pytestmark = [pytest.mark.group("spark"), pytest.mark.xdist_group("spark")]


class Counted:
    """Counts the rows that left the bus."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.rows = 0
        chunks = Flight.chunks

        def counted(flight: Flight, location: str, **ticket: object) -> Iterator[Any]:
            for batch, told in chunks(flight, location, **ticket):
                self.rows += batch.num_rows
                yield batch, told

        patch.setattr(Flight, "chunks", counted)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    return Counted(monkeypatch)


def rows_of(reader: BatchReader) -> list[dict[str, Any]]:
    """What a batch read gives, task by task."""
    batches: list[pa.RecordBatch] = []
    for partition in reader.partitions():
        batches += reader.read(partition)
    return [row for batch in batches for row in batch.to_pylist()]


def batch_rows(options: dict[str, str], *conditions: Filter) -> list[dict[str, Any]]:
    found = source_options(options, is_stream=False)
    if not conditions:
        return rows_of(BatchReader(found))
    reader = PushingBatchReader(found)
    assert list(reader.pushFilters(list(conditions))) == []
    return rows_of(reader)


# --- filters ----------------------------------------------------------------------------------


def test_a_filter_is_answered_by_the_bus(spark: SparkSession, bus: Bus, counted: Counted) -> None:
    queue = bus.queue()
    topics.fill(bus, queue, topics.coloured(60))
    text = "colour = 'red' AND number >= 30"
    rows = batch_rows(bus.options(queue, filter=text))
    expected = [f"{number:06d}" for number in range(30, 60, 3)]
    once_each(texts(rows), expected)
    assert counted.rows == len(expected)
    once_each(texts(read(spark, bus.options(queue, filter=text)).collect()), expected)
    assert batch_rows(bus.options(queue, filter="colour = 'white'")) == []
    # What a filter has no value for is not wanted.
    assert batch_rows(bus.options(queue, filter="number > 'a'")) == []


def test_a_stream_with_a_filter_passes_over_the_rest(bus: Bus, counted: Counted) -> None:
    queue = bus.queue()
    topics.fill(bus, queue, topics.coloured(30))
    options = bus.options(queue, cursor="job", filter="sys.Label = 'green'")
    log = Log()
    query = Query(log, {**options, "maxMessagesPerTrigger": "20"})
    rows = query.drain()
    bus.consume(queue, 30)
    topics.fill(bus, queue, topics.coloured(30, first=30))
    rows += query.drain()
    once_each(texts(rows), [f"{number:06d}" for number in range(1, 60, 3)])
    assert counted.rows == 20
    assert bus.left(queue) == (30, 0, 0)  # the cursor has passed what was not wanted, too
    assert Query(log, options).drain() == []


def test_a_filter_sees_what_a_dead_letter_says(bus: Bus) -> None:
    queue = bus.queue("plain")
    bus.fill(queue, 4)
    with bus.client.get_queue_receiver(queue) as receiver:
        for message in receiver.receive_messages(max_message_count=4, max_wait_time=10):
            receiver.dead_letter_message(message, reason="sour" if "2" in str(message) else "old")
    dead = bus.options(queue, subQueue="deadletter")
    assert len(batch_rows(dead)) == 4
    (row,) = batch_rows({**dead, "filter": "DeadLetterReason = 'sour'"})
    assert texts([row]) == ["000002"]


def test_a_filter_that_is_wrong_is_told_with_the_place(spark: SparkSession, bus: Bus) -> None:
    queue = bus.queue()
    with pytest.raises(BulkError, match="At character 10"):
        batch_rows(bus.options(queue, filter="colour = = 1"))
    with pytest.raises(BulkError, match="At character 10"):
        Query(Log(), bus.options(queue, cursor="job", filter="colour = = 1"))
    with pytest.raises(PySparkException, match="At character 10"):
        read(spark, bus.options(queue, filter="colour = = 1")).count()


def test_some_sessions(bus: Bus, counted: Counted) -> None:
    queue = bus.queue("sessions")
    bus.send(queue, *(ServiceBusMessage(f"{n:06d}", session_id=f"s{n % 5}") for n in range(20)))
    rows = batch_rows(bus.options(queue, sessionIds="s1,s3,s9"))
    once_each(texts(rows), [f"{n:06d}" for n in range(20) if n % 5 in (1, 3)])
    assert counted.rows == 8
    stream = Query(Log(), bus.options(queue, cursor="job", sessionIds="s2")).drain()
    assert texts(stream) == [f"{n:06d}" for n in range(2, 20, 5)]


# --- patterns ---------------------------------------------------------------------------------


def test_a_pattern_over_queues_and_subscriptions(spark: SparkSession, bus: Bus) -> None:
    topic, other = topics.new_topic(), topics.new_topic()
    topics.fill(bus, topic, topics.coloured(6))
    topics.fill(bus, other, topics.coloured(3))
    pattern = f"{topic}/subscriptions/*,{other}/Subscriptions/RED"
    options = {"connectionString": bus.connection_string, "entityPattern": pattern}
    frame = read(spark, options)
    counts = {row["entity"]: row["count"] for row in frame.groupBy("entity").count().collect()}
    assert counts == {
        topics.path_of(topic): 6,
        topics.path_of(topic, "red"): 2,
        topics.path_of(other, "red"): 1,
    }
    assert frame.rdd.getNumPartitions() == 1  # little is read by few tasks


def test_a_pattern_over_dead_letters(bus: Bus) -> None:
    queues = [bus.queue("plain"), bus.queue("plain")]
    for queue in queues:
        bus.fill(queue, 2)
        with bus.client.get_queue_receiver(queue) as receiver:
            (message,) = receiver.receive_messages(max_message_count=1)
            receiver.dead_letter_message(message, reason="sour")
    options = {"connectionString": bus.connection_string, "entityPattern": ",".join(queues)}
    rows = batch_rows({**options, "subQueue": "deadletter", "filter": "DeadLetterReason='sour'"})
    assert sorted(row["entity"] for row in rows) == sorted(queues)


def test_a_pattern_that_means_nothing(bus: Bus) -> None:
    options = {"connectionString": bus.connection_string, "entityPattern": "nothing-like-*"}
    with pytest.raises(BulkError, match="no queue and no subscription matches"):
        batch_rows(options)


# --- conditions that are pushed down ----------------------------------------------------------


def test_pushed_conditions_read_less(bus: Bus, counted: Counted) -> None:
    queue = bus.queue()
    topics.fill(bus, queue, topics.coloured(40))
    options = bus.options(queue)
    everything = batch_rows(options)
    assert counted.rows == 40
    numbers = sorted(row["sequence_number"] for row in everything)
    cases: list[tuple[list[Filter], Any]] = [
        ([EqualTo(("fragment",), 2)], lambda row: row["fragment"] == 2),
        ([In(("fragment",), (0, 3, 9))], lambda row: row["fragment"] in (0, 3)),
        (
            [GreaterThanOrEqual(("sequence_number",), numbers[5])],
            lambda row: row["sequence_number"] >= numbers[5],
        ),
        (
            [LessThan(("sequence_number",), numbers[30]), EqualTo(("fragment",), 1)],
            lambda row: row["sequence_number"] < numbers[30] and row["fragment"] == 1,
        ),
        ([EqualTo(("sequence_number",), numbers[7])], lambda r: r["sequence_number"] == numbers[7]),
        ([In(("message_id",), ("id-3", "id-33"))], lambda r: r["message_id"] in ("id-3", "id-33")),
    ]
    for conditions, holds in cases:
        counted.rows = 0
        expected = [row for row in everything if holds(row)]
        found = batch_rows(options, *conditions)
        assert sorted(texts(found)) == sorted(texts(expected))
        assert counted.rows == len(expected) < 40


def test_pushed_times(bus: Bus, counted: Counted) -> None:
    queue = bus.queue()
    topics.fill(bus, queue, topics.coloured(20))
    everything = batch_rows(bus.options(queue))
    latest = max(row["enqueued_time"] for row in everything)
    last = batch_rows(bus.options(queue), GreaterThanOrEqual(("enqueued_time",), latest))
    once_each(texts(last), texts(row for row in everything if row["enqueued_time"] == latest))
    counted.rows = 0
    late = latest + datetime.timedelta(milliseconds=1)
    assert batch_rows(bus.options(queue), GreaterThanOrEqual(("enqueued_time",), late)) == []
    assert batch_rows(bus.options(queue), LessThan(("enqueued_time",), latest - DAY)) == []
    assert counted.rows == 0
    assert len(batch_rows(bus.options(queue), LessThan(("enqueued_time",), late))) == 20


DAY = datetime.timedelta(days=1)


def test_pushed_sessions(bus: Bus, counted: Counted) -> None:
    queue = bus.queue("sessions")
    bus.send(queue, *(ServiceBusMessage(f"{n:06d}", session_id=f"s{n % 4}") for n in range(12)))
    rows = batch_rows(bus.options(queue), EqualTo(("session_id",), "s2"))
    assert texts(rows) == ["000002", "000006", "000010"]
    assert counted.rows == 3
    nothing = [EqualTo(("session_id",), "s1"), EqualTo(("session_id",), "s2")]
    assert batch_rows(bus.options(queue), *nothing) == []


def test_what_is_not_pushed_is_handed_back(bus: Bus) -> None:
    reader = PushingBatchReader(source_options(bus.options(bus.queue()), is_stream=False))
    rest = [IsNotNull(("fragment",)), EqualTo(("subject",), "red")]
    assert list(reader.pushFilters([rest[0], EqualTo(("fragment",), 1), rest[1]])) == rest
    assert "pushFilters" not in vars(BatchReader)  # or Spark would refuse it by default


def test_spark_pushes_conditions_when_it_was_told_to(spark: SparkSession, bus: Bus) -> None:
    queue = bus.queue()
    topics.fill(bus, queue, topics.coloured(40))
    where = (f.col("fragment").isin(1, 2)) & (f.col("subject") == "red")
    plain = read(spark, bus.options(queue)).where(where)
    expected = sorted(texts(plain.collect()))
    pushing = bus.options(queue, pushdown="true")
    with pytest.raises(PySparkException, match="PUSHDOWN_DISABLED"):
        read(spark, pushing).where(where).count()
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        frame = read(spark, pushing).where(where)
        assert sorted(texts(frame.collect())) == expected
        late = f.col("enqueued_time") > f.lit(datetime.datetime(2199, 1, 1, tzinfo=datetime.UTC))
        assert read(spark, pushing).where(late).rdd.getNumPartitions() <= 1
        assert read(spark, pushing).where(late).count() == 0
        assert read(spark, pushing).count() == 40
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


# --- ends and waits ---------------------------------------------------------------------------


def test_where_a_batch_read_ends(bus: Bus) -> None:
    queue = bus.queue("plain")
    bus.fill(queue, 5)
    rows = batch_rows(bus.options(queue))
    middle = rows[3]["sequence_number"]
    ended = batch_rows(bus.options(queue, endingPositionsByFragment=f'{{"0": {middle}}}'))
    assert texts(ended) == texts(rows[:3])
    part = bus.options(queue, startingPositionsByFragment='{"0": 2}')
    assert texts(batch_rows({**part, "endingPositionsByFragment": '{"0": 4}'})) == texts(rows[1:3])
    moment = rows[0]["enqueued_time"]
    assert batch_rows(bus.options(queue, endingTimestamp=moment.isoformat())) == []
    later = (moment + DAY).isoformat()
    assert len(batch_rows(bus.options(queue, endingTimestamp=later))) == 5


@pytest.mark.parametrize("mode", ["cursor", "claim"])
def test_a_batch_waits_for_enough_messages(bus: Bus, mode: str) -> None:
    queue = bus.queue()
    name = {"cursor": "cursor", "claim": "claimOwner"}[mode]
    given = {"mode": mode, name: "job", "minMessagesPerTrigger": 10, "maxTriggerDelay": "1h"}
    options = bus.options(queue, **given)
    log = Log()
    query = Query(log, options)
    bus.fill(queue, 9)
    assert query.batch() is None
    bus.fill(queue, 1, first=9)
    assert len(query.batch() or []) == 10
    bus.fill(queue, 3, first=10)
    assert query.batch() is None
    if mode == "claim":
        assert bus.left(queue) == (3, 0, 0)  # what is done is settled all the same
    # A run that takes what is available does not wait.
    assert len(Query(log, options, available_now=True).drain()) == 3


def test_a_wait_has_an_end(bus: Bus) -> None:
    queue = bus.queue()
    given = {"cursor": "job", "minMessagesPerTrigger": 10, "maxTriggerDelay": "0s"}
    query = Query(Log(), bus.options(queue, **given))
    bus.fill(queue, 2)
    assert len(query.batch() or []) == 2
