"""What both transports can do, they do alike: the same tests over the bulk path and over AMQP."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from azure.servicebus import ServiceBusMessage
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from partibus.client.message import OutgoingMessage
from pyspark_servicebus.access import Access
from pyspark_servicebus.options import source_options
from pyspark_servicebus.over_amqp.target import AmqpTarget
from pyspark_servicebus.sink.delivery import RowMessage
from spark.amqp_only import AmqpOnly
from spark.bus import FRAGMENTS, Bus, once_each, texts
from spark.sink.test_sink import bodies, numbers, write
from spark.test_types import essence, letters

pytestmark = [pytest.mark.group("spark"), pytest.mark.xdist_group("spark")]
TRANSPORTS = ["flight", "amqp"]


class Way:
    """A transport, and the options that choose it."""

    def __init__(self, spark: SparkSession, bus: Bus, transport: str) -> None:
        self._spark = spark
        self.bus = bus
        self.transport = transport

    def options(self, queue: str, **given: object) -> dict[str, str]:
        return self.bus.options(queue, transport=self.transport, **given)

    def read(self, queue: str, **given: object) -> DataFrame:
        return self._spark.read.format("servicebus").options(**self.options(queue, **given)).load()


@pytest.fixture(params=TRANSPORTS)
def way(spark: SparkSession, bus: Bus, request: pytest.FixtureRequest) -> Way:
    return Way(spark, bus, request.param)


# --- the source -----------------------------------------------------------------------------------


def test_a_snapshot(way: Way) -> None:
    queue = way.bus.queue()
    sent = way.bus.fill(queue, 600)
    rows = way.read(queue).select("body", "fragment", "sequence_number", "entity").collect()
    once_each(texts(rows), sent)
    assert all(row["sequence_number"] >> 48 == row["fragment"] for row in rows)
    assert {row["entity"] for row in rows} == {queue}
    assert way.read(queue).rdd.getNumPartitions() in (1, FRAGMENTS)
    assert way.bus.left(queue) == (600, 0, 0)
    few = way.read(queue, columns="subject,sequence_number", minPartitions=6)
    assert few.columns == ["subject", "sequence_number"]
    assert few.rdd.getNumPartitions() == 6
    assert few.distinct().count() == 600


def test_no_message(way: Way) -> None:
    frame = way.read(way.bus.queue())
    assert frame.count() == 0
    assert "application_properties" in frame.columns


def test_dead_letters(way: Way) -> None:
    queue = way.bus.queue("plain")
    way.bus.send(queue, ServiceBusMessage("poison"), ServiceBusMessage("fine"))
    with way.bus.client.get_queue_receiver(queue) as receiver:
        (message,) = receiver.receive_messages(max_message_count=1)
        receiver.dead_letter_message(message, reason="sour", error_description="milk")
    (row,) = way.read(queue, subQueue="deadletter").collect()
    assert bytes(row["body"]) == b"poison"
    assert (row["dead_letter_reason"], row["dead_letter_description"]) == ("sour", "milk")
    assert row["entity"] == queue


def test_the_rows_are_the_same(spark: SparkSession, bus: Bus) -> None:
    queue = bus.queue("plain")
    bus.send(queue, *letters())
    shown = []
    for transport in TRANSPORTS:
        frame = Way(spark, bus, transport).read(queue, includeAmqp="true")
        shown.append((frame.schema, sorted(frame.collect(), key=lambda row: row["message_id"])))
    assert shown[0] == shown[1]
    assert len(shown[0][1]) == 4


def test_columns_that_are_not_asked_for(way: Way) -> None:
    queue = way.bus.queue("plain")
    way.bus.fill(queue, 3)
    frame = way.read(queue, includeBody="false")
    assert {"body", "body_type"}.isdisjoint(frame.columns)
    assert frame.count() == 3


def test_a_queue_that_is_not_there(way: Way) -> None:
    with pytest.raises(PySparkException, match="could not be found"):
        way.read("nowhere").count()


def test_a_bus_that_is_away_is_waited_for(way: Way) -> None:
    options = way.options("q", retryDuration="300ms")
    options["connectionString"] = (
        "Endpoint=sb://127.0.0.1:1;SharedAccessKeyName=p;SharedAccessKey=k;"
        "UseDevelopmentEmulator=true"
    )
    with pytest.raises(PySparkException, match="cannot be reached"):
        way._spark.read.format("servicebus").options(**options).load().count()


# --- the sink -------------------------------------------------------------------------------------


def test_rows_become_messages(spark: SparkSession, way: Way) -> None:
    queue = way.bus.queue()
    frame = numbers(spark, 40).select(
        "body",
        f.concat(f.lit("id "), "body").alias("message_id"),
        f.lit("greeting").alias("subject"),
        f.when(f.col("body") < "000020", "key").alias("partition_key"),
        f.lit(3_600_000).alias("time_to_live_ms"),
        f.create_map(f.lit("n"), f.lit("7")).alias("application_properties"),
        f.create_map(f.lit("n"), f.lit("int")).alias("application_property_types"),
    )
    write(frame, way.options(queue))
    messages = way.bus.peek(queue)
    once_each(map(str, messages), [f"{n:06d}" for n in range(40)])
    for message in messages:
        assert message.message_id == f"id {message}"
        assert message.subject == "greeting"
        assert message.time_to_live.total_seconds() == 3600
        assert message.application_properties == {b"n": 7}
    keyed = [message for message in messages if message.partition_key == "key"]
    assert len(keyed) == 20
    assert len({message.sequence_number >> 48 for message in keyed}) == 1


def test_sessions_keep_their_order(spark: SparkSession, way: Way) -> None:
    queue = way.bus.queue("sessions")
    frame = numbers(spark, 60, slices=1).withColumn("session_id", f.substring("body", 6, 1))
    write(frame, way.options(queue, batchBytes=3000))
    rows = way.read(queue).select("session_id", "sequence_number", "body").collect()
    assert len(rows) == 60
    for session in range(10):
        mine = [row for row in rows if row["session_id"] == str(session)]
        mine.sort(key=lambda row: row["sequence_number"])
        assert texts(mine) == sorted(texts(mine))


def test_each_row_may_name_its_target(spark: SparkSession, way: Way) -> None:
    default, other = way.bus.queue(), way.bus.queue("plain")
    target = f.when(f.col("body") < "000003", other)
    write(numbers(spark, 10).withColumn("target", target), way.options(default))
    once_each(bodies(way.bus, other), ["000000", "000001", "000002"])
    assert len(bodies(way.bus, default)) == 7


def test_written_twice_is_there_once(spark: SparkSession, way: Way) -> None:
    source, queue = way.bus.queue(), way.bus.queue("once")
    sent = way.bus.fill(source, 50)
    for _ in range(2):
        write(way.read(source), way.options(queue, deliver="dedup"))
    once_each(bodies(way.bus, queue), sent)
    assert way.bus.totals(queue)["duplicates_dropped"] == 50


@pytest.mark.parametrize("raw", [False, True])
def test_every_type_goes_round(spark: SparkSession, way: Way, tmp_path: Path, raw: bool) -> None:
    source, target = way.bus.queue("plain"), way.bus.queue("plain")
    way.bus.send(source, *letters())
    frame = way.read(source, includeAmqp=str(raw).lower())
    write(frame, way.options(target))
    sent = {message.message_id: essence(message) for message in way.bus.peek(source)}
    found = {message.message_id: essence(message) for message in way.bus.peek(target)}
    if not raw:
        # All lists of a sequence come back as one.
        sent["s"]["body"] = [[item for part in sent["s"]["body"] for item in part]]
    assert found == sent


def test_a_row_that_is_too_long_fails_the_write(spark: SparkSession, way: Way) -> None:
    queue = way.bus.queue("narrow")
    long = numbers(spark, 4).withColumn("body", f.repeat("body", 5000))
    with pytest.raises(PySparkException, match=r"bytes; 'narrow-.*' accepts 16384"):
        write(long, way.options(queue))
    assert bodies(way.bus, queue) == []


def test_bad_rows_go_where_they_can_be_looked_at(spark: SparkSession, way: Way) -> None:
    queue, bad = way.bus.queue("sessions"), way.bus.queue("plain")
    body = f.col("body")
    frame = numbers(spark, 10).select(
        f.when(body == "000002", f.repeat(body, 250_000)).otherwise(body).alias("body"),
        f.when(body != "000001", f.lit("s")).alias("session_id"),
        f.when(body == "000003", f.lit(-1)).alias("time_to_live_ms"),
        f.when(body == "000004", f.lit("nowhere")).alias("target"),
    )
    write(frame, way.options(queue, badRowQueue=bad))
    assert way.bus.totals(queue)["active"] == 6
    told = [json.loads(str(message)) for message in way.bus.peek(bad)]
    assert len(told) == 4
    assert "SessionId was not set" in " ".join(row["reason"] for row in told)
    missing = [row for row in told if row["target"] == "nowhere"]
    assert [row["condition"] for row in missing] == ["amqp:not-found"]
    (large,) = [row for row in told if row["condition"] == "amqp:link:message-size-exceeded"]
    assert large["left_out"] == ["body"]
    (short,) = [row for row in told if "time_to_live_ms is -1" in row["reason"]]
    assert short["row"]["body"] == "000003"


def test_one_bad_row_spoils_no_other_of_its_batch(spark: SparkSession, way: Way) -> None:
    queue, bad = way.bus.queue("sessions"), way.bus.queue("plain")
    frame = numbers(spark, 30, slices=1).withColumn(
        "session_id", f.when(f.col("body") != "000007", f.lit("s"))
    )
    write(frame, way.options(queue, badRowQueue=bad))
    assert way.bus.totals(queue)["active"] == 29
    (told,) = [json.loads(str(message)) for message in way.bus.peek(bad)]
    assert told["row"]["body"] == "000007"


def test_a_queue_that_is_not_there_is_no_bad_row(spark: SparkSession, way: Way) -> None:
    bad = way.bus.queue("plain")
    with pytest.raises(PySparkException, match="could not be found"):
        write(numbers(spark, 3), way.options("nowhere", badRowQueue=bad))
    assert bodies(way.bus, bad) == []


def test_a_store_that_is_down_is_waited_for(spark: SparkSession, way: Way) -> None:
    queue = way.bus.queue()
    keyed = numbers(spark, 40, slices=1).withColumn("partition_key", f.col("body"))
    way.bus.operator.break_store(1)
    with pytest.raises(PySparkException, match="which the message's key selects"):
        write(keyed, way.options(queue, retryDuration="300ms"))
    way.bus.operator.mend_store(1)
    write(keyed, way.options(queue))
    assert set(bodies(way.bus, queue)) == {f"{n:06d}" for n in range(40)}


# --- over AMQP alone ------------------------------------------------------------------------------


def test_nothing_but_amqp_is_spoken(spark: SparkSession, bus: Bus, tmp_path: Path) -> None:
    source, target = bus.queue(), bus.queue("once")
    sent = bus.fill(source, 40)
    with AmqpOnly(bus.server.ready.amqp_port) as way:
        port = f":{bus.server.ready.amqp_port}"
        given = {
            "connectionString": bus.connection_string.replace(port, f":{way.port}"),
            "transport": "amqp",
        }
        consumed = given | {"queue": source, "mode": "deferclaim", "claimOwner": "job"}
        consumed["claimLocation"] = str(tmp_path / "claims")
        frame = spark.readStream.format("servicebus").options(**consumed).load()
        writer = frame.writeStream.format("servicebus")
        writer = writer.options(**given, queue=target, deliver="dedup")
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()
        read = spark.read.format("servicebus").options(**given, queue=target).load()
        once_each(texts(read.select("body").collect()), sent)
        assert way.passed > 0
        assert way.refused == []
        # It is a way on which the other transport cannot go.
        other = given | {"transport": "flight", "queue": target, "retryDuration": "100ms"}
        with pytest.raises(PySparkException, match="cannot be reached"):
            spark.read.format("servicebus").options(**other).load().count()
        assert way.refused[0].startswith(b"GET /$partibus")
    assert bus.left(source) == (0, 0, 0)


def test_a_busy_bus_is_waited_for_as_it_asks(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = bus.queue()
    options = source_options(bus.options(queue), is_stream=False)
    access = Access(options.credentials, queue, 60.0)
    pauses: list[float] = []
    bus.operator._ask("POST", "/faults", {"kind": "throttle", "entity": queue, "rate_per_s": 1})
    refused: list[str] = []
    target = AmqpTarget(
        queue, access, 2000, False, lambda _, condition, __: refused.append(condition)
    )
    for number in range(40):
        target.add(RowMessage(OutgoingMessage(body=b"%200d" % number).encode(), None))
    monkeypatch.setattr("pyspark_servicebus.errors.Backoff.wait", waits(bus, pauses))
    target.flush()
    assert (target.accepted, refused) == (40, [])
    assert pauses[0] == 2.0  # "Please wait 2 seconds and try again."
    assert len(bodies(bus, queue)) == 40


def waits(bus: Bus, pauses: list[float]) -> Callable[..., bool]:
    """A pause of no time, after which the bus is not busy any more."""

    def wait(_backoff: object, least_s: float = 0.0) -> bool:
        pauses.append(least_s)
        bus.operator.mend_all()
        return True

    return wait


def test_the_key_does_not_travel(spark: SparkSession, way: Way, capfd: Any) -> None:
    from pyspark_servicebus import DefaultSource
    from spark.test_secrets import KEY, spread

    queue = way.bus.queue()
    way.bus.fill(queue, 10)
    source = DefaultSource(options=way.options(queue))
    reader = source.reader(source.schema())
    writer = source.writer(numbers(spark, 1).schema, False)
    for travels in (reader.read, *reader.partitions(), writer, writer.write):
        assert KEY not in spread(travels)
