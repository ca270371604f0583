"""Streams called as Spark calls them, while the fragments they read move between nodes."""

import pickle
from collections.abc import Callable
from typing import Any

import pytest

from adversity.waiting import wait_until
from pyspark_servicebus import bus as bulk
from spark.bus import once_each, texts
from spark.nodes.stand import LONG_S, Stand
from spark.source.driving import Log, Query
from support.nodes.cluster import ClusterNode

pytestmark = [
    pytest.mark.group("spark"),
    pytest.mark.group("postgres"),
    pytest.mark.xdist_group("spark"),
]

Away = Callable[[Stand, ClusterNode], None]


def killed(stand: Stand, node: ClusterNode) -> None:
    number = node.number
    node.sigkill()
    stand.await_moved(number)


def drained(stand: Stand, node: ClusterNode) -> None:
    stand.drain(node)


def fenced(stand: Stand, node: ClusterNode) -> None:
    """It stands still for longer than its lease, and wakes up."""
    number = node.number
    node.pause()
    stand.await_moved(number)
    node.resume()


WAYS = pytest.mark.parametrize("away", [killed, drained, fenced])
SLOW_WAYS = [pytest.param(way, marks=pytest.mark.slow) for way in (drained, fenced)]


def reads(query: Query) -> list[Any]:
    """The tasks of the batch that is planned, each as an executor has it, not read yet."""
    start, end = query.log.offsets[query.log.committed : query.log.committed + 2]
    found = []
    for partition in query.reader.partitions(start, end):
        read, part = pickle.loads(pickle.dumps((query.reader.read, partition)))  # noqa: S301
        found.append(read(part))
    return found


def next_batch(query: Query) -> list[Any]:
    """The next batch that is not empty: while a lane moves, its fragments are left out."""
    found: list[Any] = []

    def came() -> bool:
        found[:] = query.batch() or []
        return bool(found)

    wait_until(came, "a batch", seconds=LONG_S)
    return found


def plan(query: Query) -> None:
    """A batch is planned that is not empty."""
    wait_until(query.plan, "a batch is planned", seconds=LONG_S)


def drain(query: Query, count: int) -> list[Any]:
    """So many rows, whenever they come."""
    rows: list[Any] = []
    while len(rows) < count:
        rows += next_batch(query)
    return rows


def finish(query: Query, stand: Stand, queue: str, *left: int) -> None:
    """No message comes, and so much is left. What cannot be settled while a lane moves is settled
    at one of the next triggers."""

    def is_settled() -> bool:
        assert query.batch() is None
        return stand.left(queue) == left

    wait_until(is_settled, f"{queue} has {left}", seconds=LONG_S)
    query.stop()


@WAYS
@pytest.mark.parametrize("mode", ["cursor", "claim"])
def test_a_planned_batch_is_read_at_the_new_owners(stand: Stand, mode: str, away: Away) -> None:
    queue = stand.queue()
    sent = stand.fill(queue, 600)
    log = Log()
    query = Query(log, stand.options(queue, mode=mode, cursor="c", claimOwner="o", minPartitions=6))
    plan(query)
    away(stand, stand.owner_of(queue, 0))
    rows = query.read()
    query.commit()
    once_each(texts(rows), sent)
    more = stand.fill(queue, 60, first=600)
    once_each(texts(drain(query, 60)), more)
    finish(query, stand, queue, 0 if mode == "claim" else 660, 0, 0)


@pytest.mark.parametrize("away", [killed, *SLOW_WAYS])
def test_a_read_under_way_goes_on_at_the_new_owner(stand: Stand, away: Away) -> None:
    """Several batches of a fragment are still to come when its owner goes."""
    queue = stand.queue()
    for first in range(0, 240, 60):
        stand.fill(queue, 60, first, size=250_000)
    query = Query(Log(), stand.options(queue, mode="cursor", cursor="c", minPartitions=6))
    plan(query)
    tasks = reads(query)
    begun = [next(task).to_pylist() for task in tasks]
    away(stand, stand.owner_of(queue, 0))
    rows = [row for some in begun for row in some]
    assert len(rows) < 240
    for task in tasks:
        for batch in task:
            rows += batch.to_pylist()
    assert sorted(int(text[:6]) for text in texts(rows)) == list(range(240))
    query.stop()


def test_a_node_that_stands_still_is_waited_for_no_longer_than_needed(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing says that it is gone, and it takes connections: only the time of a call ends it."""
    monkeypatch.setattr(bulk, "QUESTION_SECONDS_MAX", 2.0)
    monkeypatch.setattr(bulk, "CALL_SECONDS_MAX", 5.0)
    queue = stand.queue()
    sent = stand.fill(queue, 60)
    query = Query(Log(), stand.options(queue, mode="claim", claimOwner="o", minPartitions=6))
    plan(query)
    frozen = stand.owner_of(queue, 0)
    number = frozen.number
    frozen.pause()
    try:
        rows = query.read()
        query.commit()
        stand.await_moved(number)
        once_each(texts(rows), sent)
        more = stand.fill(queue, 60, first=60)
        once_each(texts(drain(query, 60)), more)
        assert query.batch() is None
    finally:
        frozen.resume()
    finish(query, stand, queue, 0, 0, 0)


@pytest.mark.parametrize("away", [killed, *SLOW_WAYS])
@pytest.mark.parametrize("mode", ["cursor", "claim"])
def test_the_next_run_reads_the_batch_again_at_the_new_owners(
    stand: Stand, mode: str, away: Away
) -> None:
    """The driver dies in the middle of a batch, and the owner of a fragment with it."""
    queue = stand.queue()
    sent = stand.fill(queue, 300)
    given = stand.options(queue, mode=mode, cursor="c", claimOwner="o", maxMessagesPerTrigger=120)
    log = Log()
    died = Query(log, given)
    first = next_batch(died)
    plan(died)
    seen = texts(died.read())
    away(stand, stand.owner_of(queue, 0))
    after = Query(log, given)
    again = after.read()
    after.commit()
    once_each(texts(again), seen)
    rows = first + again
    once_each(texts(rows + drain(after, len(sent) - len(rows))), sent)
    died.stop()
    finish(after, stand, queue, 0 if mode == "claim" else 300, 0, 0)
