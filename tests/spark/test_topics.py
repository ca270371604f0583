"""Subscriptions as a source in every mode, their dead letters, and topics as a sink."""

import json
from pathlib import Path

import pytest
from azure.servicebus import ServiceBusClient
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from pyspark_servicebus.errors import DataLoss
from spark import topics
from spark.bus import FRAGMENTS, Bus, once_each, texts
from spark.source.driving import Log, Query
from spark.source.test_source import capture, captured, read, stream

pytestmark = [pytest.mark.group("spark"), pytest.mark.xdist_group("spark")]
SENT = [f"{number:06d}" for number in range(30)]
RED = SENT[::3]


@pytest.fixture
def topic(bus: Bus) -> str:
    name = topics.new_topic()
    topics.fill(bus, name, topics.coloured(30))
    return name


def test_a_snapshot_of_a_subscription(spark: SparkSession, bus: Bus, topic: str) -> None:
    frame = read(spark, topics.options(bus, topic))
    once_each(texts(frame.collect()), SENT)
    red = read(spark, topics.options(bus, topic, "red")).collect()
    once_each(texts(red), RED)
    assert {row["entity"] for row in red} == {topics.path_of(topic, "red")}
    assert {row["fragment"] for row in red} <= set(range(FRAGMENTS))


@pytest.mark.parametrize("mode", ["cursor", "claim", "peek"])
def test_a_stream_of_a_subscription(
    spark: SparkSession, bus: Bus, topic: str, tmp_path: Path, mode: str
) -> None:
    names = {"cursor": "cursor", "claim": "claimOwner", "peek": ""}
    given = {names[mode]: "job"} if names[mode] else {}
    options = topics.options(bus, topic, mode=mode, maxMessagesPerTrigger=20, **given)
    capture(stream(spark, options), tmp_path).awaitTermination()
    once_each(captured(spark, tmp_path), SENT)
    topics.fill(bus, topic, topics.coloured(6, first=30))
    capture(stream(spark, options), tmp_path).awaitTermination()
    once_each(captured(spark, tmp_path), [f"{number:06d}" for number in range(36)])
    left = (0, 0, 0) if mode == "claim" else (36, 0, 0)
    assert bus.left(topics.path_of(topic)) == left
    # What one subscription gives up is no loss to the other.
    assert bus.left(topics.path_of(topic, "red")) == (12, 0, 0)


def test_dead_letters_of_a_subscription(spark: SparkSession, bus: Bus, topic: str) -> None:
    with (
        ServiceBusClient.from_connection_string(bus.connection_string) as client,
        client.get_subscription_receiver(topic, "red") as receiver,
    ):
        (message,) = receiver.receive_messages(max_message_count=1)
        receiver.dead_letter_message(message, reason="sour")
    (row,) = read(spark, topics.options(bus, topic, "red", subQueue="deadletter")).collect()
    assert texts([row]) == [str(message)]
    assert row["dead_letter_reason"] == "sour"
    assert read(spark, topics.options(bus, topic, subQueue="deadletter")).count() == 0


def test_a_topic_as_a_sink(spark: SparkSession, bus: Bus, topic: str) -> None:
    target = topics.new_topic()
    rows = read(spark, topics.options(bus, topic)).select(
        "body", "application_properties", "application_property_types"
    )
    sink = {"connectionString": bus.connection_string, "topic": target}
    rows.write.format("servicebus").options(**sink).mode("append").save()
    once_each(texts(read(spark, topics.options(bus, target)).collect()), SENT)
    once_each(texts(read(spark, topics.options(bus, target, "red")).collect()), RED)


def test_rows_that_name_a_topic(spark: SparkSession, bus: Bus) -> None:
    topic, queue = topics.new_topic(), bus.queue()
    rows = spark.range(4).select(
        f.format_string("%06d", "id").alias("body"),
        f.when(f.col("id") < 2, f.lit(topic)).otherwise(f.lit(queue)).alias("target"),
    )
    rows.write.format("servicebus").options(**bus.options(queue)).mode("append").save()
    once_each(texts(read(spark, topics.options(bus, topic)).collect()), SENT[:2])
    once_each(texts(read(spark, bus.options(queue)).collect()), SENT[2:4])


def test_a_subscription_made_anew_is_noticed(bus: Bus, topic: str) -> None:
    log = Log()
    options = topics.options(bus, topic, cursor="job")
    assert len(Query(log, options).drain()) == 30
    with bus.admin() as admin:
        admin.delete_subscription(topic, "all")
        admin.create_subscription(topic, "all")
    topics.fill(bus, topic, topics.coloured(3))
    with pytest.raises(DataLoss, match="was deleted and created again"):
        Query(log, options).drain()
    rows = Query(log, {**options, "failOnDataLoss": "false"}).drain()
    once_each(texts(rows), SENT[:3])
    assert len(json.dumps(log.offsets[-1])) < 200
