"""Transactions on partitioned queues and on queues with sessions: one key, one partition."""

import pytest

pytest.importorskip("proton", reason="needs Qpid Proton, which is built with a C compiler")

from proton import Delivery, Message

from conformance.partitioning.partitions import keys_in, partition_of
from conformance.partitioning.wire import keyed
from conformance.settlement.backstage import Backstage, text_message
from conformance.transactions.namespace import PARTITIONS, Queues
from support.proton.transactions import Transaction, refusal, taken
from support.server import ServerProcess

pytestmark = pytest.mark.group("proton")

INVALID_OPERATION = "amqp:not-allowed"
"""What the .NET client throws as InvalidOperationException."""


def key_in(partition: int) -> str:
    return keys_in(partition, PARTITIONS, 1)[0]


@pytest.mark.rule("SEED-5", "SEED-27", "SEED-34", "SEED-45", "SEED-46", "SEED-49")
def test_messages_of_one_key_are_committed_to_its_partition(
    server: ServerProcess, queues: Queues
) -> None:
    queue = queues.fresh("parted")
    with Backstage(server) as client:
        transaction = Transaction(client)
        sender = client.sender(queue)
        for body in ("one", "two", "three"):
            assert taken(transaction.send(sender, keyed(body, key_in(2))))
        assert transaction.commit() == "committed"
        shown = client.peek(queue)
        assert [item.body for item in shown] == ["one", "two", "three"]
        assert {partition_of(item.number) for item in shown} == {2}


@pytest.mark.rule("SEED-47", "CON-13")
def test_a_send_without_a_key_is_refused(server: ServerProcess, queues: Queues) -> None:
    queue = queues.fresh("parted")
    with Backstage(server) as client:
        transaction = Transaction(client)
        # A message id is no key where duplicates are not detected (CON-13).
        answer = transaction.send(client.sender(queue), Message(body="one", id="id"))
        condition, text = refusal(answer)
        assert condition == INVALID_OPERATION
        assert "must have a SessionId or PartitionKey" in text
        assert transaction.commit() == "not committed"
        assert client.shown(queue) == []


@pytest.mark.rule("SEED-45", "SEED-48", "CON-13")
def test_a_message_id_is_the_key_where_duplicates_are_detected(
    server: ServerProcess, queues: Queues
) -> None:
    queue = queues.fresh("parted-unique")
    with Backstage(server) as client:
        transaction = Transaction(client)
        sender = client.sender(queue)
        assert taken(transaction.send(sender, Message(body="one", id="id")))
        assert transaction.commit() == "committed"
        assert client.shown(queue) == ["one"]
        transaction = Transaction(client)
        assert taken(transaction.send(sender, Message(body="two", id="a")))
        answer = transaction.send(sender, Message(body="three", id="b"))
        assert refusal(answer)[0] == INVALID_OPERATION
        transaction = Transaction(client)
        assert refusal(transaction.send(sender, "none"))[0] == INVALID_OPERATION


@pytest.mark.rule("SEED-46", "SEED-48")
@pytest.mark.parametrize("is_in_one_partition", [True, False])
def test_sends_with_different_keys_are_refused(
    server: ServerProcess, queues: Queues, is_in_one_partition: bool
) -> None:
    queue = queues.fresh("parted")
    first, second = keys_in(1, PARTITIONS, 2)
    if not is_in_one_partition:
        second = key_in(3)
    with Backstage(server) as client:
        transaction = Transaction(client)
        sender = client.sender(queue)
        assert taken(transaction.send(sender, keyed("one", first)))
        condition, text = refusal(transaction.send(sender, keyed("two", second)))
        assert condition == INVALID_OPERATION and first in text and second in text
        assert transaction.commit() == "not committed"
        assert client.shown(queue) == []


@pytest.mark.rule("TXN-13")
@pytest.mark.parametrize("is_settled_first", [True, False])
def test_a_settlement_and_a_send_are_in_one_partition(
    server: ServerProcess, queues: Queues, is_settled_first: bool
) -> None:
    queue = queues.fresh("parted")
    with Backstage(server) as client:
        client.send(queue, keyed("in", key_in(0)))
        receiver = client.receiver(queue, credit=1)
        ((_, delivery),) = receiver.wait_for(1)
        sender = client.sender(queue)
        transaction = Transaction(client)
        if is_settled_first:
            assert taken(transaction.settle(delivery, Delivery.ACCEPTED))
            answer = transaction.send(sender, keyed("out", key_in(1)))
        else:
            assert taken(transaction.send(sender, keyed("out", key_in(1))))
            answer = transaction.settle(delivery, Delivery.ACCEPTED)
        condition, text = refusal(answer)
        assert condition == INVALID_OPERATION and "in one partition" in text
        assert transaction.commit() == "not committed"
        assert client.shown(queue) == ["in"]


@pytest.mark.rule("TXN-13")
def test_a_settlement_and_a_send_of_one_partition_are_committed(
    server: ServerProcess, queues: Queues
) -> None:
    queue = queues.fresh("parted")
    with Backstage(server) as client:
        client.send(queue, keyed("in", key_in(3)))
        receiver = client.receiver(queue, credit=1)
        ((_, delivery),) = receiver.wait_for(1)
        transaction = Transaction(client)
        assert taken(transaction.settle(delivery, Delivery.ACCEPTED))
        assert taken(transaction.send(client.sender(queue), keyed("out", key_in(3))))
        assert transaction.commit() == "committed"
        assert client.shown(queue) == ["out"]


# --- sessions ---------------------------------------------------------------------------------


@pytest.mark.rule("SEED-50")
@pytest.mark.parametrize("kind", ["sessions", "parted-sessions"])
def test_a_session_is_needed(server: ServerProcess, queues: Queues, kind: str) -> None:
    queue = queues.fresh(kind)
    with Backstage(server) as client:
        transaction = Transaction(client)
        answer = transaction.send(client.sender(queue), keyed("one", "key"))
        condition, text = refusal(answer)
        assert condition == INVALID_OPERATION and "SessionId" in text


@pytest.mark.rule("SEED-51")
@pytest.mark.parametrize("kind", ["sessions", "parted-sessions"])
def test_a_partition_key_beside_a_session_id_must_be_the_same(
    server: ServerProcess, queues: Queues, kind: str
) -> None:
    queue = queues.fresh(kind)
    with Backstage(server) as client:
        sender = client.sender(queue)
        transaction = Transaction(client)
        assert taken(transaction.send(sender, keyed("one", "s", group_id="s")))
        assert transaction.commit() == "committed"
        transaction = Transaction(client)
        answer = transaction.send(sender, keyed("two", "other", group_id="s"))
        assert refusal(answer)[0] == INVALID_OPERATION
        assert transaction.commit() == "not committed"
        assert client.shown(queue) == ["one"]


@pytest.mark.rule("SEED-52")
def test_a_plain_entity_takes_several_sessions(server: ServerProcess, queues: Queues) -> None:
    queue = queues.fresh("sessions")
    with Backstage(server) as client:
        transaction = Transaction(client)
        sender = client.sender(queue)
        for session in ("a", "b", "c"):
            assert taken(transaction.send(sender, text_message(session, group_id=session)))
        assert transaction.commit() == "committed"
        assert client.shown(queue) == ["a", "b", "c"]


@pytest.mark.rule("SEED-52", "SEED-53")
def test_a_partitioned_entity_takes_one_session(server: ServerProcess, queues: Queues) -> None:
    queue = queues.fresh("parted-sessions")
    with Backstage(server) as client:
        transaction = Transaction(client)
        sender = client.sender(queue)
        for body in ("one", "two"):
            assert taken(transaction.send(sender, text_message(body, group_id="a")))
        assert transaction.commit() == "committed"
        assert client.shown(queue) == ["one", "two"]
        transaction = Transaction(client)
        first, second = keys_in(1, PARTITIONS, 2)
        assert taken(transaction.send(sender, text_message("three", group_id=first)))
        answer = transaction.send(sender, text_message("four", group_id=second))
        assert refusal(answer)[0] == INVALID_OPERATION
        assert transaction.commit() == "not committed"
        assert client.shown(queue) == ["one", "two"]
