"""mode=peeklock: locks in a column, settled by those who read; at least once."""

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from pyspark_servicebus.given_options import OptionsError
from pyspark_servicebus.over_amqp.peeklock import PeekLockStream
from pyspark_servicebus.settlement import Settled, settle, settling
from spark.bus import Bus, once_each, texts
from spark.source.driving import Log, Query, Rows

pytestmark = [pytest.mark.group("spark"), pytest.mark.xdist_group("spark")]


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty queue of this machine is known to be empty at once."""
    monkeypatch.setattr("pyspark_servicebus.over_amqp.receiving.FIRST_SECONDS_MAX", 0.01)


def options(bus: Bus, queue: str, **given: object) -> dict[str, str]:
    return bus.options(queue, transport="amqp", mode="peeklock", **given)


def locked(bus: Bus, queue: str) -> tuple[int, int]:
    """Messages that are there, and those of them that are locked."""
    totals = bus.totals(queue)
    return totals["active"], totals["locked"]


def complete(query: Query, rows: Rows, status: str = "completed") -> tuple[int, int]:
    """Settle rows as a task of `settle` does; gives how many were, and how many not."""
    import pyarrow as pa

    assert isinstance(query.reader, PeekLockStream)
    assert query.reader._locked is not None
    place = query.reader._locked.place
    names = ("lock_token", "sequence_number")
    batch = pa.RecordBatch.from_pylist([{name: row[name] for name in names} for row in rows])
    (told,) = settling(place, status, "sour", "milk")(iter([batch]))
    return told["settled"][0].as_py(), told["lost"][0].as_py()


@pytest.mark.parametrize("kind", ["parted", "plain"])
def test_messages_are_locked_until_they_are_settled(bus: Bus, kind: str) -> None:
    queue = bus.queue(kind)
    sent = bus.fill(queue, 250)
    query = Query(Log(), options(bus, queue, maxMessagesPerTrigger=150, minPartitions=2))
    rows: Rows = []
    while (batch := query.batch()) is not None:
        assert locked(bus, queue)[1] == len(batch)
        assert len({row["lock_token"] for row in batch}) == len(batch)
        assert complete(query, batch) == (len(batch), 0)
        rows += batch
    once_each(texts(rows), sent)
    assert locked(bus, queue) == (0, 0)
    query.stop()


def test_a_task_that_is_tried_again_sees_the_same(bus: Bus) -> None:
    queue = bus.queue()
    bus.fill(queue, 40)
    query = Query(Log(), options(bus, queue))
    assert query.plan()
    first = query.read()
    assert query.read() == first
    assert locked(bus, queue) == (40, 40)
    # Some were settled by a task that failed then; the next try is told.
    assert complete(query, first[:10]) == (10, 0)
    assert query.read() == first
    assert complete(query, first) == (30, 10)
    query.stop()


def test_what_is_not_settled_comes_back(bus: Bus) -> None:
    queue = bus.queue("hasty")
    sent = bus.fill(queue, 20)
    log = Log()
    first = Query(log, options(bus, queue))
    rows = first.batch()
    assert rows is not None
    complete(first, rows[:5])
    complete(first, rows[5:8], "abandoned")
    complete(first, rows[8:10], "suspended")
    first.stop()
    bus.await_unlocked(queue)
    again = Query(log, options(bus, queue)).batch()
    assert again is not None
    once_each([*texts(rows[:5]), *texts(rows[8:10]), *texts(again)], sent)
    assert {row["delivery_count"] for row in again} == {1}
    assert bus.totals(queue)["dead_letter"] == 2
    assert complete(first, rows[10:12]) == (0, 2)  # those locks have ended


def test_locks_are_renewed_while_the_batch_is_worked_on(bus: Bus) -> None:
    queue = bus.queue("hasty")
    bus.fill(queue, 20)
    query = Query(Log(), options(bus, queue))
    rows = query.batch()
    assert rows is not None
    complete(query, rows[:3])  # the keeper finds out and keeps the others
    # A second query, without anybody to keep its locks, shows when two seconds are over.
    other = bus.queue("hasty")
    bus.fill(other, 1)
    with bus.client.get_queue_receiver(other) as receiver:
        assert len(receiver.receive_messages(max_message_count=1)) == 1
        bus.await_unlocked(other)
    assert locked(bus, queue) == (17, 17)
    assert complete(query, rows[3:]) == (17, 0)
    query.stop()


def test_a_batch_of_an_earlier_run_is_read_anew(bus: Bus) -> None:
    queue = bus.queue("hasty")
    sent = bus.fill(queue, 10)
    log = Log()
    first = Query(log, options(bus, queue))
    assert first.plan()
    first.stop()
    bus.await_unlocked(queue)
    second = Query(log, options(bus, queue))
    rows = second.batch()
    assert rows is not None
    once_each(texts(rows), sent)
    complete(second, rows)
    assert second.batch() is None


def test_a_run_that_takes_what_is_there_does_not_run_after_what_it_gave_back(bus: Bus) -> None:
    queue = bus.queue("plain")
    bus.fill(queue, 30)
    query = Query(Log(), options(bus, queue, maxMessagesPerTrigger=20), available_now=True)
    counts = []
    while (batch := query.batch()) is not None:
        counts.append(len(batch))
        assert complete(query, batch, "abandoned") == (len(batch), 0)
    assert sum(counts) >= 30
    assert len(counts) < 4
    bus.await_unlocked(queue)
    assert locked(bus, queue) == (30, 0)
    query.stop()


def test_settle_in_spark(spark: SparkSession, bus: Bus, tmp_path: Path) -> None:
    queue = bus.queue()
    sent = bus.fill(queue, 60)
    given = options(bus, queue, maxMessagesPerTrigger=40)
    seen: list[str] = []
    told: list[Settled] = []

    def work(batch: DataFrame, batch_id: int) -> None:
        good = batch.where(f.col("body").cast("string") != "000007")
        seen.extend(texts(good.select("body").collect()))
        told.append(settle(good, "complete", given))
        told.append(settle(batch, "deadletter", given, reason="seven", description="unlucky"))

    writer = spark.readStream.format("servicebus").options(**given).load().writeStream
    writer = writer.foreachBatch(work).option("checkpointLocation", str(tmp_path))
    writer.trigger(availableNow=True).start().awaitTermination()
    once_each([*seen, "000007"], sent)
    assert sum(one.count for one in told) == 60
    assert locked(bus, queue) == (0, 0)
    frame = spark.read.format("servicebus").options(**given, subQueue="deadletter").load()
    (dead,) = frame.select("body", "dead_letter_reason", "lock_token", "sequence_number").collect()
    assert (bytes(dead["body"]), dead["dead_letter_reason"]) == (b"000007", "seven")
    # Each plan of a batch read locks for itself: this one is of the row above.
    kept = spark.createDataFrame([dead])
    options_of_dead = given | {"subQueue": "deadletter"}
    assert settle(kept, "complete", options_of_dead) == Settled(1, 0)
    assert settle(kept, "complete", options_of_dead) == Settled(0, 1)


def test_what_settle_needs(spark: SparkSession, bus: Bus) -> None:
    frame = spark.createDataFrame([("x", 1)], ["lock_token", "sequence_number"])
    with pytest.raises(OptionsError, match="outcome: 'done' is not one of complete, abandon"):
        settle(frame, "done", bus.options("q"))
    with pytest.raises(OptionsError, match="the frame has no column lock_token"):
        settle(frame.drop("lock_token"), "complete", bus.options("q"))
