"""The writer of one captured fragment, tried again from anywhere: each message arrives once."""

import itertools
from pathlib import Path

import pytest

from partibus.client.message import OutgoingMessage
from pyspark_servicebus.access import Access
from pyspark_servicebus.errors import BulkError
from pyspark_servicebus.options import source_options
from pyspark_servicebus.pipelines.replay.once import FragmentWriter, ReplayRun, forget
from pyspark_servicebus.sink.delivery import RowMessage
from pyspark_servicebus.sink.staging import Home
from spark.bus import Bus
from spark.killing import QUEUE, killable_bus

pytestmark = [pytest.mark.group("spark"), pytest.mark.xdist_group("spark")]
RUN = ReplayRun("name", 1)
FRAGMENT = 3 << 48


def home_of(bus: Bus, queue: str) -> Home:
    credentials = source_options(bus.options(queue), is_stream=False).credentials
    return RUN.home(queue, 3, Access(credentials, queue, 20.0))


def refuse(letter: RowMessage, condition: str, text: str) -> None:
    raise AssertionError(text)


def begun(home: Home, run: ReplayRun = RUN) -> FragmentWriter:
    return FragmentWriter(home, run.series, refuse)


def send(writer: FragmentWriter, numbers: range, in_groups_of: int) -> None:
    """What a task does, with the last group not published."""
    for number in numbers:
        if writer.has(FRAGMENT + number):
            continue
        if number % in_groups_of == 0:
            writer.publish()
        payload = OutgoingMessage(body=b"%d" % number, message_id=str(number)).encode()
        writer.add(RowMessage(payload, number), FRAGMENT + number)


def arrived(bus: Bus, queue: str, numbers: range) -> None:
    bus.await_left(queue, len(numbers), 0, 0)
    assert [int(m.message_id) for m in bus.peek(queue)] == list(numbers)


def test_whoever_tries_again_leaves_out_what_is_there(bus: Bus) -> None:
    """Every try stops somewhere else, with groups of its own, and none knows of the others."""
    queue = bus.queue("plain")
    home = home_of(bus, queue)
    for stop, size in zip(itertools.count(20, 20), (7, 3, 10, 1, 4)):
        send(begun(home), range(stop), size)
    last = begun(home)
    send(last, range(120), 50)
    last.publish()
    assert last.rows == 120
    arrived(bus, queue, range(120))
    # Another replay of the same messages is another one.
    second = begun(home, ReplayRun("name", 2))
    send(second, range(3), 50)
    second.publish()
    bus.await_left(queue, 123, 0, 0)
    forget(home)
    assert bus.operator.stages(queue) == []


def test_a_try_that_is_still_alive_ends(bus: Bus) -> None:
    """Spark believes an executor dead that is not: it can do nothing any more."""
    queue = bus.queue("plain")
    home = home_of(bus, queue)
    first = begun(home)
    send(first, range(10), 5)
    second = begun(home)
    with pytest.raises(BulkError, match="has begun"):
        first.publish()
    send(second, range(20), 6)
    second.publish()
    assert second.rows == 20
    arrived(bus, queue, range(20))


def test_a_restart_of_the_bus_changes_nothing(tmp_path: Path) -> None:
    with killable_bus(tmp_path) as bus:
        send(begun(home_of(bus, QUEUE)), range(30), 10)
        bus.server.restart()
        again = begun(home_of(bus, QUEUE))
        send(again, range(30), 4)
        again.publish()
        bus.await_left(QUEUE, 30, 0, 0)
        assert sorted(int(m.message_id) for m in bus.peek(QUEUE)) == list(range(30))
