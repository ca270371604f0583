"""mode=deferclaim: every message once, whatever crashes between its steps, none left aside."""

import json
import operator
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusSubQueue
from pyspark.sql import SparkSession

from conformance.settlement.namespace import write_queues
from conformance.settlement.steps import until
from pyspark_servicebus.errors import BulkError, DataLoss
from pyspark_servicebus.options import source_options
from pyspark_servicebus.over_amqp import deferclaim_stream
from pyspark_servicebus.over_amqp.claim_files import ClaimFiles
from pyspark_servicebus.over_amqp.deferclaim_stream import DeferClaimStream
from pyspark_servicebus.over_amqp.deferral import Deferral
from pyspark_servicebus.over_amqp.readers import PeekReader
from spark.bus import KINDS, Bus, once_each, texts
from spark.faulty import fails_once
from spark.killing import Driver
from spark.source.driving import Log, Query
from spark.source.test_source import capture, captured, stream
from support.server import ServerProcess

pytestmark = [pytest.mark.group("spark"), pytest.mark.xdist_group("spark")]


class Crash(BaseException):
    """The driver dies here; nothing catches it."""


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty queue of this machine is known to be empty at once."""
    monkeypatch.setattr("pyspark_servicebus.over_amqp.receiving.FIRST_SECONDS_MAX", 0.01)


def options(bus: Bus, queue: str, place: Path, **given: object) -> dict[str, str]:
    fixed = {"transport": "amqp", "mode": "deferclaim", "claimOwner": "job"}
    return bus.options(queue, **(fixed | {"claimLocation": place / "claims"} | given))


def aside(bus: Bus, queue: str) -> tuple[int, int, int]:
    """Active, deferred and locked messages."""
    totals = bus.totals(queue)
    return totals["active"], totals["deferred"], totals["locked"]


def notes(place: Path) -> list[str]:
    return sorted(path.suffix for path in (place / "claims").iterdir())


@pytest.mark.parametrize("kind", ["parted", "plain"])
def test_every_message_once_and_none_is_left(bus: Bus, tmp_path: Path, kind: str) -> None:
    queue = bus.queue(kind)
    sent = bus.fill(queue, 900)
    given = options(bus, queue, tmp_path, maxMessagesPerTrigger=400, minPartitions=3)
    query = Query(Log(), given, available_now=True)
    rows = query.batch()
    assert rows is not None
    assert (len(rows), aside(bus, queue)) == (400, (500, 400, 0))
    assert query.plan()
    assert aside(bus, queue) == (100, 400, 0)  # the first batch is deleted, the second deferred
    rows += query.read()
    query.commit()
    rows += query.drain()
    once_each(texts(rows), sent)
    assert aside(bus, queue) == (0, 0, 0)
    assert notes(tmp_path) == [""]
    query.stop()


def test_a_run_that_takes_what_is_there_ends_although_more_comes(
    bus: Bus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = bus.queue("plain")
    bus.fill(queue, 90)
    monkeypatch.setattr(deferclaim_stream, "CLOCK_MS", -3_600_000)  # all of it came after the start
    monkeypatch.setattr(deferclaim_stream, "CHUNK_MESSAGES", 40)
    given = options(bus, queue, tmp_path)
    assert len(Query(Log(), given, available_now=True).drain()) == 40
    assert aside(bus, queue) == (50, 0, 0)
    assert len(Query(Log(), given).drain()) == 50  # one that goes on takes all


def test_rows_are_those_of_the_message_as_it_was_sent(bus: Bus, tmp_path: Path) -> None:
    queue = bus.queue("plain")
    bus.send(queue, ServiceBusMessage("one", application_properties={"n": 1}, message_id="m"))
    (row,) = Query(Log(), options(bus, queue, tmp_path)).drain()
    assert (row["message_id"], row["state"]) == ("m", "deferred")
    assert row["application_properties"] == [("n", "1")]
    assert row["application_property_types"] == [("n", "int")]


def test_a_batch_is_read_again_exactly_by_the_next_run(bus: Bus, tmp_path: Path) -> None:
    queue = bus.queue()
    sent = bus.fill(queue, 60)
    given = options(bus, queue, tmp_path, maxMessagesPerTrigger=40)
    log = Log()
    first = Query(log, given)
    assert first.plan()
    seen = first.read()
    bus.fill(queue, 10, first=60)  # what comes meanwhile is not part of it
    second = Query(log, given)
    assert second.plan()
    again = second.read()
    assert sorted(texts(again)) == sorted(texts(seen))
    second.commit()
    rows = again + second.drain()
    once_each(texts(rows), [*sent, *(f"{n:06d}" for n in range(60, 70))])
    assert aside(bus, queue) == (0, 0, 0)


def dies(monkeypatch: pytest.MonkeyPatch, owner: type, name: str, when: str, at: int) -> None:
    """The driver dies before or after a certain call of a method."""
    real: Callable[..., Any] = getattr(owner, name)
    calls = 0

    def call(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == at and when == "before":
            raise Crash
        result = real(*arguments, **named)
        if calls == at and when == "after":
            raise Crash
        return result

    monkeypatch.setattr(owner, name, call)


@pytest.mark.parametrize(
    ("owner", "name", "when", "at"),
    [
        (ClaimFiles, "note", "before", 1),  # locked, and nothing is noted
        (ClaimFiles, "note", "after", 1),  # noted, and nothing is deferred
        (Deferral, "defer", "after", 1),  # deferred, and the batch goes on
        (ClaimFiles, "note", "before", 3),  # all deferred, the batch is not noted
        (ClaimFiles, "note", "after", 3),  # noted, and not in the offset log
        (ClaimFiles, "forget", "before", 1),  # the intents are still there
    ],
)
def test_a_driver_that_dies_while_it_claims(
    bus: Bus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: type, name: str, when: str,
    at: int,
) -> None:  # fmt: skip
    queue = bus.queue("hasty")
    sent = bus.fill(queue, 90)
    monkeypatch.setattr(deferclaim_stream, "CHUNK_MESSAGES", 51)
    given = options(bus, queue, tmp_path, maxMessagesPerTrigger=80)
    log = Log()
    first = Query(log, given)
    with monkeypatch.context() as patch:
        dies(patch, owner, name, when, at)
        with pytest.raises(Crash):
            first.plan()
    second = Query(log, given)
    rows = second.drain()
    if when == "before" and at == 1 and name == "note":
        # Nothing tells of them; they come back when their locks end.
        assert aside(bus, queue)[2] > 0
        bus.await_unlocked(queue)
        rows += second.drain()
    once_each(texts(rows), sent)
    assert aside(bus, queue) == (0, 0, 0)
    assert notes(tmp_path) == [""]


@pytest.mark.parametrize("portion", [1, 2])
def test_a_driver_that_dies_while_it_settles(
    bus: Bus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, portion: int
) -> None:
    queue = bus.queue("plain")
    sent = bus.fill(queue, 250)
    given = options(bus, queue, tmp_path)
    log = Log()
    first = Query(log, given)
    rows = first.batch()
    assert rows is not None
    with monkeypatch.context() as patch:
        dies(patch, Deferral, "_delete", "after", portion)
        with pytest.raises(Crash):
            first.plan()
    assert aside(bus, queue) == (0, 250 - 100 * portion, 0)
    rows += Query(log, given).drain()
    once_each(texts(rows), sent)
    assert aside(bus, queue) == (0, 0, 0)


def test_some_of_a_portion_are_gone_already(bus: Bus, tmp_path: Path) -> None:
    queue = bus.queue("plain")
    bus.fill(queue, 20)
    query = Query(Log(), options(bus, queue, tmp_path))
    rows = query.batch()
    assert rows is not None
    take_by_number(bus, queue, rows[7]["sequence_number"])
    assert query.batch() is None
    assert aside(bus, queue) == (0, 0, 0)


def take_by_number(bus: Bus, queue: str, number: int) -> None:
    with bus.client.get_queue_receiver(queue) as receiver:
        (message,) = receiver.receive_deferred_messages(number)
        receiver.complete_message(message)


def test_a_message_that_others_took_is_missed(bus: Bus, tmp_path: Path) -> None:
    queue = bus.queue("plain")
    bus.fill(queue, 20)
    log = Log()
    given = options(bus, queue, tmp_path, retryDuration="300ms")
    query = Query(log, given)
    assert query.plan()
    first = query.read()
    take_by_number(bus, queue, first[3]["sequence_number"])
    with pytest.raises(DataLoss, match=r"1 messages of 'plain-.*' that were deferred"):
        query.read()
    lenient = Query(log, given | {"failOnDataLoss": "false"})
    assert lenient.plan()
    assert len(lenient.read()) == 19


def test_what_others_have_deferred_is_left_alone(bus: Bus, tmp_path: Path) -> None:
    queue = bus.queue("plain")
    sent = bus.fill(queue, 10)
    with bus.client.get_queue_receiver(queue) as receiver:
        (theirs,) = receiver.receive_messages(max_message_count=1)
        receiver.defer_message(theirs)
    # As if this query had meant to defer it, and died: the number is the same, the claim is not.
    files = ClaimFiles(str(tmp_path / "claims"))
    files._write("00000000-0-0.intent", {"v": 1, "messages": [[theirs.sequence_number, 9, ""]]})
    rows = Query(Log(), options(bus, queue, tmp_path)).drain()
    once_each(texts(rows), sent[1:])
    assert aside(bus, queue) == (0, 1, 0)


def test_a_later_run_shuts_the_earlier_one_out(bus: Bus, tmp_path: Path) -> None:
    queue = bus.queue("plain")
    bus.fill(queue, 10)
    given = options(bus, queue, tmp_path)
    log = Log()
    first = Query(log, given)
    assert first.batch() is not None
    second = Query(log, given)
    with pytest.raises(BulkError, match="Another run of 'job' has begun"):
        first.plan()
    assert second.batch() is None
    assert aside(bus, queue) == (0, 0, 0)
    with pytest.raises(ValueError, match=f"belongs to '{queue}'"):
        Query(Log(), options(bus, bus.queue("plain"), tmp_path))


def test_a_new_checkpoint_takes_what_the_old_one_had_set_aside(bus: Bus, tmp_path: Path) -> None:
    queue = bus.queue("plain")
    sent = bus.fill(queue, 30)
    given = options(bus, queue, tmp_path, maxMessagesPerTrigger=10)
    assert Query(Log(), given).plan()
    rows = Query(Log(), given).drain()
    once_each(texts(rows), sent)
    assert aside(bus, queue) == (0, 0, 0)


def test_dead_letters_are_consumed_too(bus: Bus, tmp_path: Path) -> None:
    queue = bus.queue("plain")
    bus.fill(queue, 5)
    with bus.client.get_queue_receiver(queue) as receiver:
        for message in receiver.receive_messages(max_message_count=5):
            receiver.dead_letter_message(message, reason="sour")
    rows = Query(Log(), options(bus, queue, tmp_path, subQueue="deadletter")).drain()
    assert [row["dead_letter_reason"] for row in rows] == ["sour"] * 5
    assert bus.totals(queue)["dead_letter"] == 0
    with bus.client.get_queue_receiver(queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as left:
        assert left.peek_messages(max_message_count=5) == []


def test_a_queue_with_sessions_is_refused(bus: Bus, tmp_path: Path) -> None:
    query = Query(Log(), options(bus, bus.queue("sessions"), tmp_path))
    with pytest.raises(BulkError, match="requires sessions, which cannot be received here"):
        query.plan()


def test_a_bus_that_goes_away_is_waited_for(bus: Bus, tmp_path: Path) -> None:
    queue = bus.queue()
    sent = bus.fill(queue, 40)
    query = Query(Log(), options(bus, queue, tmp_path, retryDuration="20s"), available_now=True)
    assert query.plan()
    bus.server.restart()
    rows = query.read()
    query.commit()
    bus.server.restart()
    rows += query.drain()
    once_each(texts(rows), sent)
    assert aside(bus, queue) == (0, 0, 0)


def test_notes_in_another_file_system(bus: Bus, tmp_path: Path) -> None:
    queue = bus.queue("plain")
    sent = bus.fill(queue, 20)
    location = f"file://{tmp_path}/elsewhere"
    query = Query(Log(), options(bus, queue, tmp_path, claimLocation=location))
    assert query.plan()
    (note,) = (tmp_path / "elsewhere").glob("*.claim")
    assert len(json.loads(note.read_text())["messages"]) == 20
    once_each(texts(query.read()), sent)
    assert isinstance(query.reader, DeferClaimStream)


@pytest.fixture
def vendor_bus(tmp_path: Path) -> Iterator[Bus]:
    """A bus whose peek shows what the first fragment to answer has, as the vendor's may."""
    config = write_queues(tmp_path / "namespace.toml", {"parted-0": KINDS["parted"]})
    flags = ("--stores", "2", "--workers", "2", "--peek-partitioned", "first-responder")
    with ServerProcess(tmp_path, config, *flags) as server, Bus(server) as bus:
        yield bus


def test_where_a_peek_shows_any_fragment(vendor_bus: Bus, tmp_path: Path) -> None:
    bus, queue = vendor_bus, vendor_bus.queue()
    sent = bus.fill(queue, 400)
    reader = PeekReader(source_options(bus.options(queue, transport="amqp"), is_stream=False))
    rows = [row for part in reader.partitions() for b in reader.read(part) for row in b.to_pylist()]
    once_each(texts(rows), sent)
    given = options(bus, queue, tmp_path, maxMessagesPerTrigger=150, minPartitions=2)
    log = Log()
    first = Query(log, given)
    assert first.plan()
    seen = first.read()
    with pytest.MonkeyPatch.context() as patch:
        dies(patch, Deferral, "_delete", "after", 1)
        first.commit()
        with pytest.raises(Crash):
            first.plan()
    rows = seen + Query(log, given).drain()
    once_each(texts(rows), sent)
    assert aside(bus, queue) == (0, 0, 0)


def test_messages_that_no_peek_shows_are_looked_at_by_number(
    bus: Bus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = bus.queue()
    sent = bus.fill(queue, 130)
    given = options(bus, queue, tmp_path)
    log = Log()
    first = Query(log, given)
    assert first.plan()
    shown = first.read()
    for module in ("tasks", "deferral"):
        monkeypatch.setattr(f"pyspark_servicebus.over_amqp.{module}.walk_set", lambda *_: iter(()))
    hidden = first.read()
    by_number = operator.itemgetter("sequence_number")
    # The look under a lock counts as a delivery.
    for row in [*shown, *hidden]:
        row["delivery_count"] = 0
    assert sorted(hidden, key=by_number) == sorted(shown, key=by_number)
    assert aside(bus, queue) == (0, 130, 0)
    log.offsets.pop()  # it died before the offset was written
    rows = Query(log, given).drain()
    once_each(texts(rows), sent)
    assert aside(bus, queue) == (0, 0, 0)


def test_in_spark(spark: SparkSession, bus: Bus, tmp_path: Path) -> None:
    queue = bus.queue()
    sent = bus.fill(queue, 60)
    given = options(bus, queue, tmp_path, maxMessagesPerTrigger=40, minPartitions=2)
    frame = stream(spark, given).select("body")
    marker = tmp_path / "failed"
    broken = frame.mapInArrow(fails_once(str(marker), 5), frame.schema)
    capture(broken, tmp_path).awaitTermination()
    assert marker.exists()
    once_each(captured(spark, tmp_path), sent)
    assert aside(bus, queue) == (0, 0, 0)
    assert notes(tmp_path) == [""]


def test_a_driver_that_is_killed(spark: SparkSession, bus: Bus, tmp_path: Path) -> None:
    queue = bus.queue("hasty")
    for first in range(0, 6000, 1000):
        bus.fill(queue, 1000, first)
    driver = Driver(bus, "local[2,4]", queue, tmp_path, 700, "deferclaim")
    try:
        driver.until("BATCH 1")
        until("the next batch to be under way", lambda: aside(bus, queue)[1] > 0)
    finally:
        driver.kill()
    given = options(bus, queue, tmp_path, claimOwner="killed", maxMessagesPerTrigger=4000)
    frame = stream(spark, given).select("fragment", "sequence_number", "body")
    # What it had just received is locked for two seconds more, and nobody has noted it.
    bus.await_unlocked(queue)
    capture(frame, tmp_path).awaitTermination()
    rows = spark.read.parquet(str(tmp_path / "out")).collect()
    assert len({(row["fragment"], row["sequence_number"]) for row in rows}) == 6000
    once_each(texts(rows), [f"{n:06d}" for n in range(6000)])
    assert aside(bus, queue) == (0, 0, 0)
    assert notes(tmp_path) == [""]
