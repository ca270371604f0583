"""`spark.read` and `spark.readStream` from a real server, in one Spark session."""

from pathlib import Path
from typing import Any

import pytest
from azure.servicebus import ServiceBusMessage
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from conformance.settlement.steps import until
from partibus.client.message import OutgoingMessage
from spark.bus import FRAGMENTS, Bus, once_each, texts
from spark.faulty import fails_once
from spark.topics import fill

pytestmark = [pytest.mark.group("spark"), pytest.mark.xdist_group("spark")]


def read(spark: SparkSession, options: dict[str, str]) -> DataFrame:
    return spark.read.format("servicebus").options(**options).load()


def stream(spark: SparkSession, options: dict[str, str]) -> DataFrame:
    return spark.readStream.format("servicebus").options(**options).load()


def capture(frame: DataFrame, place: Path, **trigger: Any) -> Any:
    """A query into Parquet files."""
    writer = frame.writeStream.format("parquet").option("path", str(place / "out"))
    writer = writer.option("checkpointLocation", str(place / "checkpoint"))
    return writer.trigger(**(trigger or {"availableNow": True})).start()


def captured(spark: SparkSession, place: Path) -> list[str]:
    return texts(spark.read.parquet(str(place / "out")).select("body").collect())


def test_a_snapshot_of_a_queue(spark: SparkSession, bus: Bus) -> None:
    queue = bus.queue()
    sent = bus.fill(queue, 50)
    frame = read(spark, bus.options(queue))
    rows = frame.select("body", "fragment", "sequence_number").collect()
    once_each(texts(rows), sent)
    assert all(row["sequence_number"] >> 48 == row["fragment"] for row in rows)
    assert bus.left(queue) == (50, 0, 0)
    few = read(spark, bus.options(queue, columns="subject,sequence_number", minPartitions=6))
    assert few.columns == ["subject", "sequence_number"]
    assert few.rdd.getNumPartitions() == 6
    assert few.count() == 50


def test_a_queue_without_messages(spark: SparkSession, bus: Bus) -> None:
    frame = read(spark, bus.options(bus.queue()))
    assert frame.count() == 0
    assert "application_properties" in frame.columns


def test_dead_letters(spark: SparkSession, bus: Bus) -> None:
    queue = bus.queue("plain")
    bus.send(queue, ServiceBusMessage("poison"), ServiceBusMessage("fine"))
    with bus.client.get_queue_receiver(queue) as receiver:
        (message,) = receiver.receive_messages(max_message_count=1)
        receiver.dead_letter_message(message, reason="sour", error_description="milk")
    (row,) = read(spark, bus.options(queue, subQueue="deadletter")).collect()
    assert bytes(row["body"]) == b"poison"
    assert (row["dead_letter_reason"], row["dead_letter_description"]) == ("sour", "milk")


@pytest.mark.parametrize("mode", ["cursor", "claim"])
def test_available_now_in_two_runs(
    spark: SparkSession, bus: Bus, tmp_path: Path, mode: str
) -> None:
    queue = bus.queue()
    sent = bus.fill(queue, 50)
    name = {"cursor": "cursor", "claim": "claimOwner"}[mode]
    options = bus.options(queue, mode=mode, maxMessagesPerTrigger=30, **{name: "job"})
    capture(stream(spark, options), tmp_path).awaitTermination()
    once_each(captured(spark, tmp_path), sent)
    assert bus.left(queue) == ((50, 0, 0) if mode == "cursor" else (0, 0, 0))
    bus.consume(queue, 50 if mode == "cursor" else 0)
    sent += bus.fill(queue, 10, first=50)
    query = capture(stream(spark, options), tmp_path)
    query.awaitTermination()
    once_each(captured(spark, tmp_path), sent)
    assert bus.left(queue)[1:] == (0, 0)
    assert query.lastProgress["numInputRows"] == 10


def test_an_idle_query_settles_its_last_batch(
    spark: SparkSession, bus: Bus, tmp_path: Path
) -> None:
    queue = bus.queue()
    bus.fill(queue, 20)
    options = bus.options(queue, mode="claim", claimOwner="job")
    query = capture(stream(spark, options), tmp_path, processingTime="200 milliseconds")
    try:
        bus.await_left(queue, 0, 0, 0)
        done = query.lastProgress["batchId"]
        until("an idle trigger", lambda: query.status["isTriggerActive"] is False)
        assert done == 0  # no further batch was needed for that
    finally:
        query.stop()
    assert len(captured(spark, tmp_path)) == 20


def test_a_task_that_fails_once_gives_nothing_twice(
    spark: SparkSession, bus: Bus, tmp_path: Path
) -> None:
    queue = bus.queue()
    sent = bus.fill(queue, 60)
    options = bus.options(queue, mode="claim", claimOwner="job", minPartitions=4)
    frame = stream(spark, options).select("body")
    marker = tmp_path / "failed"
    broken = frame.mapInArrow(fails_once(str(marker), 5), frame.schema)
    capture(broken, tmp_path).awaitTermination()
    assert marker.exists()
    once_each(captured(spark, tmp_path), sent)
    assert bus.left(queue) == (0, 0, 0)


def test_a_batch_that_fails_is_read_again_by_the_next_run(
    spark: SparkSession, bus: Bus, tmp_path: Path
) -> None:
    queue = bus.queue()
    sent = bus.fill(queue, 30)
    options = bus.options(queue, mode="claim", claimOwner="job")
    seen: list[list[str]] = []

    def collect(frame: DataFrame, batch_id: int) -> None:
        seen.append(texts(frame.select("body").collect()))
        if len(seen) == 1:
            raise RuntimeError("the sink is full")

    def run() -> None:
        writer = stream(spark, options).writeStream.foreachBatch(collect)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()

    with pytest.raises(PySparkException, match="the sink is full"):
        run()
    assert bus.left(queue) == (30, 30, 0)
    run()
    once_each(seen[0], sent)
    once_each(seen[1], sent)
    assert bus.left(queue) == (0, 0, 0)


def test_a_store_that_is_down_holds_nobody_else_up(
    spark: SparkSession, bus: Bus, tmp_path: Path
) -> None:
    queue = bus.queue()
    options = bus.options(queue, cursor="job", retryDuration="500ms")
    sent = bus.fill(queue, 40)
    capture(stream(spark, options), tmp_path).awaitTermination()
    sent += bus.fill(queue, 40, first=40)
    bus.operator.break_store(1)
    capture(stream(spark, options), tmp_path).awaitTermination()
    assert 40 < len(captured(spark, tmp_path)) < 80
    with pytest.raises(PySparkException, match="is down"):
        read(spark, bus.options(queue, retryDuration="500ms")).count()
    bus.operator.mend_store(1)
    capture(stream(spark, options), tmp_path).awaitTermination()
    once_each(captured(spark, tmp_path), sent)


def test_wrong_options_are_told_by_spark(spark: SparkSession, bus: Bus) -> None:
    options = bus.options(bus.queue(), mode="claim", minPartitions="few")
    with pytest.raises((AnalysisException, PySparkException)) as caught:
        read(spark, options).count()
    text = str(caught.value)
    assert "mode: claim is for streams" in text
    assert "minPartitions: 'few'" in text


def test_a_message_that_no_row_can_be_made_of_is_named(spark: SparkSession, bus: Bus) -> None:
    queue = bus.queue("plain")
    # The bus refuses properties that nobody can read; the body is the sender's own.
    poison = OutgoingMessage(body="##", body_type="value", message_id="m", subject="s").encode()
    fill(bus, queue, [poison.replace(b"##", b"\xff\xfe")])
    with pytest.raises(PySparkException, match=f"Message 1 in fragment 0 of '{queue}' cannot"):
        read(spark, bus.options(queue)).collect()
    rows = read(spark, bus.options(queue, columns="subject,message_id")).collect()
    assert [row["message_id"] for row in rows] == ["m"]


def test_what_can_be_read_is_read_without_the_rest(spark: SparkSession, bus: Bus) -> None:
    queue = bus.queue()
    bus.fill(queue, 40)
    lost = bus.lost_fragments(queue)
    bus.operator.break_store(1)
    options = bus.options(queue, retryDuration="200ms", failOnDataLoss="false")
    rows = read(spark, options).select("fragment").distinct().collect()
    assert {row["fragment"] for row in rows} == set(range(FRAGMENTS)) - lost


def test_progress_tracking_that_runs_ahead_is_refused_where_rows_are_kept(
    spark: SparkSession, bus: Bus, tmp_path: Path
) -> None:
    queue = bus.queue()
    bus.fill(queue, 4)
    frame = stream(spark, bus.options(queue, mode="claim", claimOwner="job"))
    writer = frame.writeStream.option("asyncProgressTrackingEnabled", "true")
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    with pytest.raises(Exception, match="async progress tracking"):
        writer.format("parquet").option("path", str(tmp_path / "out")).start().awaitTermination()
    with pytest.raises(Exception, match=r"(?i)async.?progress.?tracking"):
        sink = bus.options(bus.queue())
        writer.format("servicebus").options(**sink).start().awaitTermination()
    assert bus.left(queue) == (4, 0, 0)
