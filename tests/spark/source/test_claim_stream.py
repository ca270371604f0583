"""Streams that claim what they read, called as Spark calls them."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pyspark_servicebus.errors import BulkError, ClaimLost, DataLoss
from pyspark_servicebus.source import tasks
from pyspark_servicebus.source.claim_stream import ClaimStream
from spark.bus import FRAGMENTS, Bus, once_each, texts
from spark.killing import QUEUE, killable_bus
from spark.source.driving import Log, Query

pytestmark = [pytest.mark.group("spark"), pytest.mark.xdist_group("spark")]


def claim(bus: Bus, queue: str, **given: object) -> dict[str, str]:
    return bus.options(queue, mode="claim", claimOwner="job", **given)


def test_a_batch_is_held_and_settled_when_the_next_is_asked_for(bus: Bus) -> None:
    queue = bus.queue()
    sent = bus.fill(queue, 20)
    query = Query(Log(), claim(bus, queue, maxMessagesPerTrigger=8))
    rows = query.batch() or []
    assert bus.left(queue) == (20, 8, 0)
    rows += query.batch() or []
    assert bus.left(queue) == (12, 8, 0)
    rows += query.drain()
    assert bus.left(queue) == (0, 0, 0)
    once_each(texts(rows), sent)


def test_held_messages_are_nobody_elses(bus: Bus) -> None:
    queue = bus.queue()
    bus.fill(queue, 12)
    query = Query(Log(), claim(bus, queue, maxMessagesPerTrigger=8))
    held = texts(query.batch() or [])
    others = [str(message) for message in bus.receive(queue, 4)]
    assert not set(held) & set(others)
    assert query.batch() is None
    assert bus.left(queue) == (0, 0, 0)


def test_available_now_leaves_nothing_claimed(bus: Bus) -> None:
    queue = bus.queue()
    sent = bus.fill(queue, 10)
    query = Query(Log(), claim(bus, queue, maxMessagesPerTrigger=3), available_now=True)
    bus.fill(queue, 10, first=10)
    rows = query.drain()
    assert len(rows) == len(sent)
    assert bus.left(queue) == (10, 0, 0)


def test_a_batch_that_did_not_end_is_taken_over(bus: Bus) -> None:
    queue = bus.queue()
    sent = bus.fill(queue, 20)
    log = Log()
    options = claim(bus, queue, maxMessagesPerTrigger=8)
    crashed = Query(log, options)
    crashed.plan()
    first = crashed.read()
    query = Query(log, options)
    assert query.plan()
    assert query.read() == first
    query.commit()
    rows = first + query.drain()
    once_each(texts(rows), sent)
    assert bus.left(queue) == (0, 0, 0)


def test_a_claim_that_no_offset_names_is_taken_again(bus: Bus) -> None:
    queue = bus.queue()
    sent = bus.fill(queue, 20)
    options = claim(bus, queue, maxMessagesPerTrigger=8)
    log = Log()
    crashed = Query(log, options)
    crashed.plan()
    log.offsets.pop()  # the process died before the offset was written
    rows = Query(log, options).drain()
    once_each(texts(rows), sent)


def test_a_run_that_was_followed_is_shut_out(bus: Bus) -> None:
    queue = bus.queue()
    bus.fill(queue, 20)
    log = Log()
    options = claim(bus, queue, maxMessagesPerTrigger=8)
    zombie = Query(log, options)
    zombie.plan()
    zombie.read()
    query = Query(log, options)
    query.plan()
    query.read()
    zombie.log = Log(list(log.offsets), 1)
    with pytest.raises(BulkError, match="has replaced run") as caught:
        zombie.plan()
    assert caught.value.condition == "partibus:claim-fenced"
    query.commit()
    query.drain()
    assert bus.left(queue) == (0, 0, 0)


def test_a_claim_that_was_lost_is_told(bus: Bus) -> None:
    queue = bus.queue("plain")
    sent = bus.fill(queue, 10)
    log = Log()
    options = claim(bus, queue, maxMessagesPerTrigger=4, claimDuration="1s")
    crashed = Query(log, options)
    crashed.plan()
    crashed.stop()
    bus.await_left(queue, 10, 0, 0)
    taken = [str(message) for message in bus.receive(queue, 2)]
    query = Query(log, options)
    with pytest.raises(DataLoss, match="others have taken messages of it"):
        query.read()
    careless = Query(log, {**options, "failOnDataLoss": "false"})
    rows = careless.drain()
    once_each(texts(rows) + taken, sent)
    assert bus.left(queue) == (0, 0, 0)


def test_a_lapsed_claim_that_nobody_touched_is_taken_back(bus: Bus) -> None:
    queue = bus.queue("plain")
    sent = bus.fill(queue, 10)
    log = Log()
    options = claim(bus, queue, maxMessagesPerTrigger=4, claimDuration="1s")
    crashed = Query(log, options)
    crashed.plan()
    crashed.stop()
    bus.await_left(queue, 10, 0, 0)
    query = Query(log, options)
    assert query.plan()
    rows = query.read()
    query.commit()
    rows += query.drain()
    once_each(texts(rows), sent)


def test_a_claim_is_kept_alive(bus: Bus) -> None:
    queue = bus.queue("plain")
    bus.fill(queue, 6)
    query = Query(Log(), claim(bus, queue, claimDuration="1s"))
    query.plan()
    assert isinstance(query.reader, ClaimStream)
    renewal = query.reader._renewal
    assert renewal is not None
    with renewal.paused():
        bus.await_left(queue, 6, 0, 0)  # it has lapsed
    with renewal.paused():
        renewal.renew()
    assert len(query.read()) == 6  # it was taken back
    with renewal.paused():
        renewal.renew()
    assert bus.left(queue) == (6, 6, 0)
    query.commit()
    assert query.batch() is None
    assert bus.left(queue) == (0, 0, 0)
    query.stop()


def test_a_task_waits_for_a_claim_that_is_taken_back(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = bus.queue("plain")
    sent = bus.fill(queue, 6)
    query = Query(Log(), claim(bus, queue, claimDuration="1s"))
    query.plan()
    assert isinstance(query.reader, ClaimStream)
    renewal = query.reader._renewal
    assert renewal is not None
    asked_again = threading.Event()

    def where(*_: object) -> str:
        asked_again.set()
        return bus._location(queue)

    monkeypatch.setattr(tasks, "_where", where)
    with ThreadPoolExecutor(1) as pool:
        with renewal.paused():
            bus.await_left(queue, 6, 0, 0)  # it has lapsed
            rows = pool.submit(query.read)
            assert asked_again.wait(30)
        once_each(texts(rows.result()), sent)
    query.stop()


def test_a_claim_outlives_a_bus_that_comes_back_elsewhere(tmp_path: Path) -> None:
    with killable_bus(tmp_path) as bus:
        sent = bus.fill(QUEUE, 40)
        query = Query(Log(), claim(bus, QUEUE, claimDuration="1s"))
        query.plan()
        before = bus._location(QUEUE)
        bus.server.restart()
        assert bus._location(QUEUE) != before
        bus.await_left(QUEUE, 40, 40, 0)  # renewed or taken back, though Spark has asked nothing
        once_each(texts(query.read()), sent)
        query.stop()


def test_a_batch_that_ended_after_its_claim_was_lost(bus: Bus) -> None:
    queue = bus.queue("plain")
    bus.fill(queue, 4)
    options = claim(bus, queue, claimDuration="1s")
    query = Query(Log(), options)
    query.plan()
    query.read()
    query.commit()
    query.stop()
    bus.await_left(queue, 4, 0, 0)
    bus.consume(queue, 1)
    with pytest.raises(DataLoss, match="although its batch is done"):
        query.plan()


def test_a_fragment_that_is_down_is_settled_later(bus: Bus) -> None:
    queue = bus.queue()
    sent = bus.fill(queue, 40)
    log = Log()
    options = claim(bus, queue, maxMessagesPerTrigger=20)
    query = Query(log, options)
    rows = query.batch() or []
    lost = bus.lost_fragments(queue)
    bus.operator.break_store(1)
    more = query.batch() or []
    assert {row["fragment"] for row in more} == set(range(FRAGMENTS)) - lost
    unsettled = log.offsets[-1]["unsettled"]
    assert {int(index) for index in unsettled} == lost
    # Another run knows from the offset what is still to be settled.
    again = Query(log, options)
    assert again.batch() is None
    bus.operator.mend_store(1)
    rows += more + again.drain()
    once_each(texts(rows), sent)
    assert bus.left(queue) == (0, 0, 0)


def test_sessions_cannot_be_claimed(bus: Bus) -> None:
    from azure.servicebus import ServiceBusMessage

    queue = bus.queue("sessions")
    bus.send(queue, ServiceBusMessage("x", session_id="s"))
    with pytest.raises(BulkError, match="requires sessions"):
        Query(Log(), claim(bus, queue)).plan()


def test_an_entity_made_anew_is_noticed(bus: Bus) -> None:
    queue = bus.queue("plain")
    bus.fill(queue, 4)
    log = Log()
    options = claim(bus, queue)
    Query(log, options).drain()
    bus.make_anew(queue)
    sent = bus.fill(queue, 3)
    with pytest.raises(DataLoss, match="was deleted and created again"):
        Query(log, options).drain()
    once_each(texts(Query(log, {**options, "failOnDataLoss": "false"}).drain()), sent)


def test_offsets_are_small(bus: Bus) -> None:
    queue = bus.queue()
    bus.fill(queue, 40)
    query = Query(Log(), claim(bus, queue))
    query.drain()
    assert all(len(json.dumps(offset)) < 200 for offset in query.log.offsets)


def test_a_lost_claim_has_a_name_of_its_own(bus: Bus) -> None:
    queue = bus.queue("plain")
    bus.fill(queue, 1)
    query = Query(Log(), claim(bus, queue))
    query.plan()
    flight = query.reader.reading.flight
    location = query.reader.reading.entity.locations[0]
    assert location is not None
    with pytest.raises(ClaimLost):
        list(flight.chunks(location, fragment=0, mode="claim", owner="job", start="batch 99"))
