"""`df.write` and `df.writeStream` to a real server, in one Spark session."""

import datetime
import json
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from spark.bus import FRAGMENTS, Bus, once_each
from spark.faulty import fails_once

pytestmark = [pytest.mark.group("spark"), pytest.mark.xdist_group("spark")]


def numbers(spark: SparkSession, count: int, slices: int = 2) -> DataFrame:
    return spark.range(0, count, 1, slices).select(f.format_string("%06d", "id").alias("body"))


def write(frame: DataFrame, options: dict[str, str]) -> None:
    frame.write.format("servicebus").options(**options).mode("append").save()


def bodies(bus: Bus, queue: str) -> list[str]:
    return [str(message) for message in bus.peek(queue)]


def test_rows_become_messages(spark: SparkSession, bus: Bus) -> None:
    queue = bus.queue()
    frame = numbers(spark, 40).select(
        "body",
        f.concat(f.lit("id "), "body").alias("message_id"),
        f.lit("greeting").alias("subject"),
        f.lit("text/plain").alias("content_type"),
        f.lit("key").alias("partition_key"),
        f.lit(3_600_000).alias("time_to_live_ms"),
        f.create_map(f.lit("n"), f.lit("7")).alias("application_properties"),
        f.create_map(f.lit("n"), f.lit("int")).alias("application_property_types"),
    )
    write(frame, bus.options(queue, batchBytes=500))
    messages = bus.peek(queue)
    once_each(map(str, messages), [f"{n:06d}" for n in range(40)])
    for message in messages:
        assert message.message_id == f"id {message}"
        assert (message.subject, message.content_type) == ("greeting", "text/plain")
        assert message.time_to_live == datetime.timedelta(hours=1)
        assert message.partition_key == "key"
        assert message.application_properties == {b"n": 7}
    assert len({message.sequence_number >> 48 for message in messages}) == 1


def test_rows_without_a_key_are_spread(spark: SparkSession, bus: Bus) -> None:
    queue = bus.queue()
    write(numbers(spark, 40), bus.options(queue))
    fragments = {message.sequence_number >> 48 for message in bus.peek(queue)}
    assert len(fragments) == FRAGMENTS


def test_scheduled_rows_and_sessions(spark: SparkSession, bus: Bus) -> None:
    queue = bus.queue("sessions")
    later = f.current_timestamp() + f.expr("interval 1 hour")
    frame = numbers(spark, 6).withColumn("session_id", f.substring("body", 6, 1))
    write(frame, bus.options(queue))
    write(frame.withColumn("scheduled_enqueue_time", later), bus.options(queue))
    totals = bus.totals(queue)
    assert (totals["active"], totals["scheduled"]) == (6, 6)


def test_each_row_may_name_its_target(spark: SparkSession, bus: Bus) -> None:
    default, other = bus.queue(), bus.queue("plain")
    target = f.when(f.col("body") < "000003", other)
    write(numbers(spark, 10).withColumn("target", target), bus.options(default))
    once_each(bodies(bus, other), ["000000", "000001", "000002"])
    assert len(bodies(bus, default)) == 7


def test_further_columns_are_refused_or_become_properties(spark: SparkSession, bus: Bus) -> None:
    queue = bus.queue()
    frame = numbers(spark, 3).withColumn("amount", f.lit(1.5)).withColumn("ok", f.lit(True))
    with pytest.raises(PySparkException, match="amount: messages have no such column"):
        write(frame, bus.options(queue))
    assert bodies(bus, queue) == []
    write(frame, bus.options(queue, extraColumns="properties"))
    properties = [message.application_properties for message in bus.peek(queue)]
    assert properties == [{b"amount": 1.5, b"ok": True}] * 3


def test_written_twice_is_there_once(spark: SparkSession, bus: Bus) -> None:
    source, queue = bus.queue(), bus.queue("once")
    sent = bus.fill(source, 50)
    frame = spark.read.format("servicebus").options(**bus.options(source)).load()
    for _ in range(2):
        write(frame, bus.options(queue, deliver="dedup"))
    once_each(bodies(bus, queue), sent)
    assert bus.totals(queue)["duplicates_dropped"] == 50


def test_dedup_needs_a_queue_that_detects_duplicates(spark: SparkSession, bus: Bus) -> None:
    frame = numbers(spark, 3).withColumn("message_id", f.col("body"))
    with pytest.raises(PySparkException, match="does not detect duplicates"):
        write(frame, bus.options(bus.queue(), deliver="dedup"))
    target = frame.withColumn("target", f.lit(bus.queue("plain")))
    with pytest.raises(PySparkException, match="does not detect duplicates"):
        write(target, bus.options(bus.queue("once"), deliver="dedup"))


@pytest.mark.parametrize("deliver", ["dedup", "atLeastOnce"])
def test_a_write_that_fails_in_the_middle(
    spark: SparkSession, bus: Bus, tmp_path: Path, deliver: str
) -> None:
    queue = bus.queue("once")
    marker = tmp_path / "failed"
    # Enough for the buffers between Spark's processes to pass some on before the task fails.
    frame = numbers(spark, 200, slices=1).withColumn("body", f.rpad("body", 4000, "."))
    broken = frame.mapInArrow(fails_once(str(marker), 190), frame.schema)
    given = {"dedupKey": "body"} if deliver == "dedup" else {}
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 5)
    try:
        write(broken, bus.options(queue, deliver=deliver, batchBytes=4000, **given))
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert marker.exists()
    found = bodies(bus, queue)
    assert {body[:6] for body in found} == {f"{n:06d}" for n in range(200)}
    dropped = bus.totals(queue)["duplicates_dropped"]
    if deliver == "dedup":
        # What the first try had sent was sent again, and dropped by the bus.
        assert (len(found), dropped > 0) == (200, True)
    else:
        assert (len(found) > 200, dropped) == (True, 0)


def test_from_one_queue_to_another(spark: SparkSession, bus: Bus, tmp_path: Path) -> None:
    source, queue = bus.queue(), bus.queue("once")
    sent = bus.fill(source, 50)
    read = bus.options(source, mode="claim", claimOwner="job", maxMessagesPerTrigger=20)
    frame = spark.readStream.format("servicebus").options(**read).load()
    loud = frame.withColumn("body", f.upper(f.col("body").cast("string")))
    writer = loud.writeStream.format("servicebus").options(**bus.options(queue, deliver="dedup"))
    writer = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
    writer.start().awaitTermination()
    once_each(bodies(bus, queue), sent)
    assert bus.left(source) == (0, 0, 0)


# --- rows that are no messages --------------------------------------------------------------------


def test_a_bad_row_fails_the_write(spark: SparkSession, bus: Bus) -> None:
    queue = bus.queue("narrow")
    long = numbers(spark, 4).withColumn("body", f.repeat("body", 5000))
    with pytest.raises(PySparkException, match=r"bytes; 'narrow-.*' accepts 16384"):
        write(long, bus.options(queue))
    assert bodies(bus, queue) == []


def test_bad_rows_go_where_they_can_be_looked_at(spark: SparkSession, bus: Bus) -> None:
    queue, bad = bus.queue("sessions"), bus.queue("plain")
    body = f.col("body")
    frame = numbers(spark, 10).select(
        f.when(body == "000002", f.repeat(body, 250_000)).otherwise(body).alias("body"),
        f.when(body != "000001", f.lit("s")).alias("session_id"),
        f.when(body == "000003", f.lit(-1)).alias("time_to_live_ms"),
        f.when(body == "000004", f.lit("nowhere")).alias("target"),
    )
    write(frame, bus.options(queue, badRowQueue=bad))
    assert bus.totals(queue)["active"] == 6
    told = [json.loads(str(message)) for message in bus.peek(bad)]
    assert len(told) == 4
    assert "SessionId was not set" in " ".join(row["reason"] for row in told)
    missing = [row for row in told if row["target"] == "nowhere"]
    assert [row["condition"] for row in missing] == ["amqp:not-found"]
    (large,) = [row for row in told if row["condition"] == "amqp:link:message-size-exceeded"]
    assert large["left_out"] == ["body"]
    (short,) = [row for row in told if "time_to_live_ms is -1" in row["reason"]]
    assert short["row"]["body"] == "000003"


def test_a_queue_that_is_not_there_is_no_bad_row(spark: SparkSession, bus: Bus) -> None:
    bad = bus.queue("plain")
    with pytest.raises(PySparkException, match="could not be found"):
        write(numbers(spark, 3), bus.options("nowhere", badRowQueue=bad))
    assert bodies(bus, bad) == []


def test_a_store_that_is_down_is_waited_for(spark: SparkSession, bus: Bus) -> None:
    queue = bus.queue()
    keyed = numbers(spark, 40, slices=1).withColumn("partition_key", f.col("body"))
    bus.operator.break_store(1)
    with pytest.raises(PySparkException, match="which the message's key selects"):
        write(keyed, bus.options(queue, retryDuration="300ms"))
    bus.operator.mend_store(1)
    write(keyed, bus.options(queue))
    assert set(bodies(bus, queue)) == {f"{n:06d}" for n in range(40)}
