"""Streams behind a cursor, called as Spark calls them."""

import pytest

from pyspark_servicebus.errors import BulkError, DataLoss
from spark.bus import FRAGMENTS, Bus, once_each, texts
from spark.source.driving import Log, Query

pytestmark = [pytest.mark.group("spark"), pytest.mark.xdist_group("spark")]


def test_every_message_once_whatever_others_receive(bus: Bus) -> None:
    queue = bus.queue()
    options = bus.options(queue, cursor="job", maxMessagesPerTrigger=7)
    log = Log()
    query = Query(log, options)
    sent = bus.fill(queue, 20)
    rows = query.batch() or []
    assert len(rows) == 7
    bus.consume(queue, 20)
    assert bus.left(queue)[0] == 0
    sent += bus.fill(queue, 5, first=20)
    rows += query.drain()
    once_each(texts(rows), sent)
    assert bus.left(queue) == (5, 0, 0)  # the cursor has passed everything
    assert len({row["sequence_number"] for row in rows}) == 25
    for fragment in range(FRAGMENTS):
        numbers = [row["sequence_number"] for row in rows if row["fragment"] == fragment]
        assert numbers == sorted(numbers)


def test_a_batch_that_did_not_end_is_read_again_as_it_was(bus: Bus) -> None:
    queue = bus.queue()
    options = bus.options(queue, cursor="job", maxMessagesPerTrigger=10)
    bus.fill(queue, 20)
    log = Log()
    crashed = Query(log, options)
    crashed.plan()
    first = crashed.read()
    bus.consume(queue, 20)
    bus.fill(queue, 5, first=20)
    query = Query(log, options)
    assert query.batch() == [{**row, "delivery_count": 0} for row in first]
    assert len(query.drain()) == 15


def test_a_run_goes_on_behind_the_last(bus: Bus) -> None:
    queue = bus.queue()
    options = bus.options(queue, cursor="job", startingPosition="latest")
    bus.fill(queue, 3)
    log = Log()
    Query(log, options)  # ends at once, but the cursor stands
    sent = bus.fill(queue, 6, first=3)
    bus.consume(queue, 9)
    assert bus.left(queue) == (0, 0, 6)
    # Asked again for where it begins, which is now behind these, the cursor stays where it is.
    query = Query(log, options, available_now=True)
    assert bus.left(queue)[2] == 6
    once_each(texts(query.drain()), sent)


def test_available_now_leaves_what_comes_later(bus: Bus) -> None:
    queue = bus.queue()
    log = Log()
    options = bus.options(queue, cursor="job", maxMessagesPerTrigger=4)
    sent = bus.fill(queue, 10)
    query = Query(log, options, available_now=True)
    later = bus.fill(queue, 10, first=10)
    once_each(texts(query.drain()), sent)
    once_each(texts(Query(log, options, available_now=True).drain()), later)


def test_a_cursor_is_where_the_next_checkpoint_begins(bus: Bus) -> None:
    queue = bus.queue()
    options = bus.options(queue, cursor="job")
    bus.fill(queue, 8)
    first = Query(Log(), options)
    first.drain()
    later = bus.fill(queue, 4, first=8)
    once_each(texts(Query(Log(), options).drain()), later)


def test_where_a_read_begins(bus: Bus) -> None:
    queue = bus.queue("plain")
    bus.fill(queue, 1)
    bus.fill(queue, 1, first=1)
    moment = bus.peek(queue)[1].enqueued_time_utc.isoformat()
    bus.fill(queue, 1, first=2)
    given = {
        "startingPosition": "earliest",
        "startingTimestamp": moment,
        "startingPositionsByFragment": '{"0": 3}',
    }
    counts = {"startingPosition": 3, "startingPositionsByFragment": 1}
    for number, (name, value) in enumerate(given.items()):
        options = bus.options(queue, cursor=f"job {number}", **{name: value})
        rows = Query(Log(), options).drain()
        if name in counts:
            assert len(rows) == counts[name]
        else:
            # Two messages may have come within the same millisecond.
            assert texts(rows)[-2:] == ["000001", "000002"]


def test_a_subset_of_fragments(bus: Bus) -> None:
    queue = bus.queue()
    bus.fill(queue, 20)
    rows = Query(Log(), bus.options(queue, cursor="job", fragments="1,3")).drain()
    assert {row["fragment"] for row in rows} == {1, 3}
    with pytest.raises(BulkError, match="there is no 4"):
        Query(Log(), bus.options(queue, cursor="job", fragments="4"))


def test_a_retention_that_was_too_small_is_told(bus: Bus) -> None:
    queue = bus.queue("plain")
    options = bus.options(queue, cursor="job", retentionBytes="1b")
    log = Log()
    Query(log, options)
    bus.fill(queue, 10, size=2000)
    bus.consume(queue, 10)
    bus.await_left(queue, 0, 0, 0)
    bus.fill(queue, 1)
    with pytest.raises(DataLoss, match="were discarded before they were read"):
        Query(log, options).drain()
    careless = Query(log, {**options, "failOnDataLoss": "false"})
    assert len(careless.drain()) < 11


def test_an_entity_made_anew_is_noticed(bus: Bus) -> None:
    queue = bus.queue("plain")
    options = bus.options(queue, cursor="job")
    log = Log()
    bus.fill(queue, 4)
    Query(log, options).drain()
    bus.make_anew(queue)
    sent = bus.fill(queue, 3)
    with pytest.raises(DataLoss, match="was deleted and created again"):
        Query(log, options).drain()
    once_each(texts(Query(log, {**options, "failOnDataLoss": "false"}).drain()), sent)


def test_an_entity_that_is_not_there(bus: Bus) -> None:
    with pytest.raises(BulkError, match="'nowhere' could not be found") as caught:
        Query(Log(), bus.options("nowhere", cursor="job"))
    assert caught.value.condition == "amqp:not-found"


def test_a_fragment_that_is_down_keeps_its_position(bus: Bus) -> None:
    queue = bus.queue()
    options = bus.options(queue, cursor="job", retryDuration="200ms")
    log = Log()
    query = Query(log, options)
    sent = bus.fill(queue, 40)
    lost = bus.lost_fragments(queue)
    bus.operator.break_store(1)
    rows = query.drain()
    assert {row["fragment"] for row in rows} == set(range(FRAGMENTS)) - lost
    again = Query(log, options)
    assert again.drain() == []
    bus.operator.mend_store(1)
    rows += query.drain()
    once_each(texts(rows), sent)


def test_a_task_outlives_an_outage(bus: Bus) -> None:
    queue = bus.queue()
    query = Query(Log(), bus.options(queue, cursor="job"))
    sent = bus.fill(queue, 40)
    assert query.plan()
    bus.operator.break_store(1)
    start, end = query.log.offsets
    parts = query.reader.partitions(start, end)
    batches = (batch for part in parts for batch in query.reader.read(part))
    rows = next(batches).to_pylist()  # of a fragment that is up, or this would wait
    bus.operator.mend_store(1)
    for batch in batches:
        rows += batch.to_pylist()
    once_each(texts(rows), sent)


def test_a_task_that_waits_in_vain_fails(bus: Bus) -> None:
    queue = bus.queue()
    query = Query(Log(), bus.options(queue, cursor="job", retryDuration="200ms"))
    bus.fill(queue, 40)
    assert query.plan()
    bus.operator.break_store(1)
    with pytest.raises(BulkError, match="is down"):
        query.read()


def test_peek_sees_what_is_there(bus: Bus) -> None:
    queue = bus.queue()
    sent = bus.fill(queue, 10)
    query = Query(Log(), bus.options(queue, mode="peek"))
    once_each(texts(query.drain()), sent)
    bus.consume(queue, 10)
    assert bus.left(queue) == (0, 0, 0)
    assert query.drain() == []


def test_sessions_are_read_along(bus: Bus) -> None:
    from azure.servicebus import ServiceBusMessage

    queue = bus.queue("sessions")
    messages = [ServiceBusMessage(f"{n}", session_id=f"s{n % 3}") for n in range(12)]
    bus.send(queue, *messages)
    rows = Query(Log(), bus.options(queue, cursor="job")).drain()
    for session in range(3):
        mine = [row for row in rows if row["session_id"] == f"s{session}"]
        assert texts(mine) == [str(n) for n in range(session, 12, 3)]
