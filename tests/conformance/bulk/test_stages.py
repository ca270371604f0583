"""What is staged over the bulk path is seen when it is published, and once."""

import itertools
from typing import Any

import pytest
from azure.servicebus import ServiceBusClient

from conformance.bulk.client import BulkClient, Refused
from conformance.bulk.test_protocol import letters, token_of
from conformance.partitioning.operator import Operator
from conformance.settlement.steps import until
from partibus.client.message import OutgoingMessage
from partibus.domain.partition_key import fragment_index
from support.receiving import collect
from support.server import ServerProcess

pytestmark = pytest.mark.group("flight")
_numbers = itertools.count(20)
HOME = fragment_index("job", 4)


@pytest.fixture
def queue() -> str:
    return f"parted-{next(_numbers)}"


@pytest.fixture
def bulk(server: ServerProcess) -> BulkClient:
    return BulkClient(server)


@pytest.fixture
def operator(server: ServerProcess) -> Operator:
    return Operator(server)


def stage(
    bulk: BulkClient, queue: str, name: str, *chunks: Any, epoch: int = 1, **fields: Any
) -> Any:
    who = {"deliver": "staged", "writer": "job", "epoch": epoch, "stage": name}
    return bulk.put(queue, *chunks, at=HOME, **who, **fields)


def publish(bulk: BulkClient, queue: str, batch: int, *stages: Any, epoch: int = 1) -> Any:
    who = {"writer": "job", "series": "query", "epoch": epoch, "batch": batch}
    return bulk.ask(queue, "stage.publish", HOME, **who, stages=stages)


def writer(bulk: BulkClient, queue: str) -> Any:
    return bulk.ask(queue, "stage.writer", HOME, writer="job")["writer"]


def totals(operator: Operator, queue: str) -> tuple[int, int]:
    """Active and staged messages."""
    told = operator.entity(queue)["totals"]
    return told["active"], told["staged"]


def await_totals(operator: Operator, queue: str, *expected: int) -> None:
    until(f"{queue} to have {expected}", lambda: totals(operator, queue) == expected)


def test_a_batch_is_seen_when_it_is_published_and_once(
    bulk: BulkClient, queue: str, operator: Operator, client: ServiceBusClient
) -> None:
    answers = stage(bulk, queue, "a", letters(10), letters(5))
    assert [answer["accepted"] for answer in answers] == [10, 5]
    stage(bulk, queue, "b", letters(7, partition_key="k"))
    stage(bulk, queue, "left behind", letters(3))
    assert totals(operator, queue) == (0, 25)
    told = writer(bulk, queue)
    assert {s["stage"]: s["messages"] for s in told["stages"]} == {
        "a": 15,
        "b": 7,
        "left behind": 3,
    }
    answer = publish(bulk, queue, 0, ("b", 7), ("a", 15))
    assert answer == {"published": 22, "repeated": False}
    await_totals(operator, queue, 22, 0)
    with client.get_queue_receiver(queue) as receiver:
        messages = collect(receiver, 22)
        keyed = [m for m in messages if m.partition_key == "k"]
        assert [str(m) for m in keyed] == [str(n) for n in range(7)]
        assert len({m.sequence_number >> 48 for m in messages}) == 4
        for message in messages:
            receiver.complete_message(message)
    # The answer was lost, or a driver that was restarted writes the batch again.
    assert publish(bulk, queue, 0, ("b", 7), ("a", 15)) == {"published": 0, "repeated": True}
    stage(bulk, queue, "a", letters(15), epoch=2)
    assert publish(bulk, queue, 0, ("a", 15), epoch=2) == {"published": 0, "repeated": True}
    assert totals(operator, queue) == (0, 0)
    assert writer(bulk, queue)["batch"] == 0


def test_a_chunk_that_is_sent_again_is_added_once(
    bulk: BulkClient, queue: str, operator: Operator
) -> None:
    stage(bulk, queue, "a", letters(4), letters(4))
    [answer] = stage(bulk, queue, "a", letters(4), chunk=1)
    assert answer["accepted"] == 4
    stage(bulk, queue, "a", letters(2), chunk=2)
    with pytest.raises(Refused, match="before it are missing") as caught:
        stage(bulk, queue, "a", letters(2), chunk=4)
    assert (caught.value.condition, caught.value.retryable) == ("partibus:stage-lost", False)
    publish(bulk, queue, 0, ("a", 10))
    await_totals(operator, queue, 10, 0)


def test_an_older_run_is_shut_out(bulk: BulkClient, queue: str, operator: Operator) -> None:
    stage(bulk, queue, "old", letters(3), epoch=5)
    stage(bulk, queue, "new", letters(3), epoch=6)
    for attempt in (
        lambda: stage(bulk, queue, "old", letters(1), chunk=1, epoch=5),
        lambda: publish(bulk, queue, 0, ("old", 3), epoch=5),
    ):
        with pytest.raises(Refused, match="must stop") as caught:
            attempt()
        assert caught.value.condition == "partibus:stage-fenced"
    publish(bulk, queue, 0, ("new", 3), epoch=6)
    # A straggler of a batch that is over.
    with pytest.raises(Refused, match="has ended"):
        stage(bulk, queue, "late", letters(1), epoch=6)
    await_totals(operator, queue, 3, 0)


def test_what_is_not_as_it_was_written_is_not_published(
    bulk: BulkClient, queue: str, operator: Operator
) -> None:
    stage(bulk, queue, "a", letters(3))
    for stages in ([("a", 4)], [("a", 3), ("b", 1)], [("a", 3), ("a", 3)]):
        with pytest.raises(Refused) as caught:
            publish(bulk, queue, 0, *stages)
        assert caught.value.condition == "partibus:stage-lost"
    assert bulk.ask(queue, "stage.drop", HOME, writer="job", epoch=1) == {"dropped": 3}
    with pytest.raises(Refused):
        publish(bulk, queue, 0, ("a", 3))
    assert totals(operator, queue) == (0, 0)


def test_stages_for_other_entities(
    bulk: BulkClient, queue: str, operator: Operator, client: ServiceBusClient
) -> None:
    other = f"parted-{next(_numbers)}"
    loud = [OutgoingMessage(body=b"x", subject="loud").encode() for _ in range(3)]
    stage(bulk, queue, "a", letters(4), target=other)
    stage(bulk, queue, "b", letters(2) + loud, target="news")
    assert totals(operator, queue) == (0, 9)
    publish(bulk, queue, 0, ("a", 4), ("b", 5))
    await_totals(operator, other, 4, 0)
    for name, count in (("all", 5), ("loud", 3)):
        with client.get_subscription_receiver("news", name) as receiver:
            assert len(collect(receiver, count)) == count
    with pytest.raises(Refused, match="could not be found"):
        stage(bulk, queue, "c", letters(1), target="nowhere", epoch=2)


def test_a_topic_is_staged_and_published(
    bulk: BulkClient, operator: Operator, client: ServiceBusClient
) -> None:
    loud = [OutgoingMessage(body=b"y", subject="loud").encode() for _ in range(4)]
    with client.get_subscription_receiver("news", "loud") as receiver:
        stage(bulk, "news", "t", loud)
        publish(bulk, "news", 0, ("t", 4))
        assert [str(message) for message in collect(receiver, 4)] == ["y"] * 4


def test_rows_that_are_refused_hold_nobody_up(bulk: BulkClient, queue: str) -> None:
    good = letters(2)
    large = OutgoingMessage(body=b"x" * 2_000_000).encode()
    [answer] = stage(bulk, queue, "a", [good[0], b"\x00", large, good[1]])
    assert answer["accepted"] == 2
    refused = {row: condition for row, condition, _, _ in answer["refused"]}
    assert refused == {1: "amqp:decode-error", 2: "amqp:link:message-size-exceeded"}
    assert writer(bulk, queue)["stages"][0]["messages"] == 2


def test_only_the_home_of_a_writer_takes_its_stages(bulk: BulkClient, queue: str) -> None:
    places = bulk.locations(queue)
    other = next(index for index in places if places[index] != places[HOME])
    who = {"deliver": "staged", "writer": "job", "epoch": 1, "stage": "a"}
    with pytest.raises(Refused, match="is not served here; look up"):
        bulk.put(queue, letters(1), at=other, **who)


def test_a_worker_is_killed_before_and_after_the_publication(
    server: ServerProcess, bulk: BulkClient, queue: str, operator: Operator
) -> None:
    stage(bulk, queue, "a", letters(50), letters(50))
    restart(operator, bulk, queue)
    await_totals(operator, queue, 0, 100)
    publish(bulk, queue, 0, ("a", 100))
    restart(operator, bulk, queue)
    await_totals(operator, queue, 100, 0)
    assert publish(bulk, queue, 0, ("a", 100))["repeated"]


def restart(operator: Operator, bulk: BulkClient, queue: str) -> None:
    before = bulk.locations(queue)[HOME]
    operator.kill_worker(operator.workers(queue)[HOME])

    def is_back() -> bool:
        try:
            status, answer = bulk.discover(queue)
            if status != 200 or before in [f["location"] for f in answer["fragments"]]:
                return False
            return writer(bulk, queue) is not None
        except (OSError, TypeError, Refused):
            return False

    until("the worker to be back", is_back)


def test_a_home_that_is_down_fails_a_batch_for_now(
    bulk: BulkClient, queue: str, operator: Operator
) -> None:
    store = operator.placement(queue)[HOME]
    stage(bulk, queue, "a", letters(5))
    operator.break_store(store)
    try:
        for attempt in (
            lambda: stage(bulk, queue, "a", letters(5), chunk=1),
            lambda: publish(bulk, queue, 0, ("a", 5)),
        ):
            with pytest.raises(Refused) as caught:
                attempt()
            assert caught.value.retryable
    finally:
        operator.mend_store(store)
    stage(bulk, queue, "a", letters(5), chunk=1)
    publish(bulk, queue, 0, ("a", 10))
    await_totals(operator, queue, 10, 0)


def test_a_destination_that_is_down_gets_its_messages_later(
    bulk: BulkClient, queue: str, operator: Operator
) -> None:
    placement = operator.placement(queue)
    store = next(place for place in placement if place != placement[HOME])
    stage(bulk, queue, "a", letters(40))
    operator.break_store(store)
    try:
        publish(bulk, queue, 0, ("a", 40))
        until("the others to have theirs", lambda: 0 < totals(operator, queue)[0] < 40)
    finally:
        operator.mend_store(store)
    await_totals(operator, queue, 40, 0)


def test_who_may_stage(server: ServerProcess, queue: str) -> None:
    listener = BulkClient(server, token_of(server, "", "NamespaceListen", "namespace-listen-key"))
    sender = BulkClient(server, token_of(server, "", "NamespaceSend", "namespace-send-key"))
    stage(sender, queue, "a", letters(1))
    publish(sender, queue, 0, ("a", 1))
    for attempt in (
        lambda: stage(listener, queue, "b", letters(1)),
        lambda: publish(listener, queue, 1),
        lambda: writer(listener, queue),
    ):
        with pytest.raises(Refused, match="'Send' claim"):
            attempt()
    with pytest.raises(Refused, match="cannot be read"):
        stage(sender, queue, "", letters(1))
    with pytest.raises(Refused, match="is disabled for sending"):
        stage(sender, queue, "c", letters(1), target="disabled", epoch=2)


def test_a_large_batch_comes_whole(bulk: BulkClient, operator: Operator) -> None:
    """More than the outbox takes at once, all of it for the fragment that is the home too."""
    chunks = [letters(1000) for _ in range(9)]
    who = {"deliver": "staged", "writer": "job", "epoch": 1, "stage": "a"}
    bulk.put("guarded", *chunks, **who)
    batch = {"writer": "job", "series": "query", "epoch": 1, "batch": 0}
    bulk.ask("guarded", "stage.publish", **batch, stages=[("a", 9000)])
    await_totals(operator, "guarded", 9000, 0)
