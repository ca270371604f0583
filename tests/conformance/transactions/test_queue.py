"""Transactions on one plain queue, by Qpid Proton's transaction API."""

import os
import socket

import pytest

pytest.importorskip("proton", reason="needs Qpid Proton, which is built with a C compiler")

from proton import Delivery, Message, symbol

from conformance.settlement.backstage import ACTIVE, DEFERRED, Backstage, dead, text_message
from conformance.transactions.namespace import Queues
from support.proton.client import LOCK_TOKEN
from support.proton.transactions import Transaction, refusal, taken
from support.server import ServerProcess

pytestmark = pytest.mark.group("proton")

INVALID_LOCK = "com.microsoft:message-lock-lost"
UNKNOWN = "amqp:transaction:unknown-id"


@pytest.mark.rule("TXN-1", "TXN-2", "TXN-11")
def test_sends_are_seen_after_the_commit_and_not_before(server: ServerProcess, queue: str) -> None:
    with Backstage(server) as client:
        transaction = Transaction(client)
        sender = client.sender(queue)
        assert all(taken(transaction.send(sender, body)) for body in ("one", "two"))
        assert client.shown(queue) == []
        client.send(queue, "outside")
        assert client.bodies(queue, 1) == ["outside"]
        assert transaction.commit() == "committed"
        assert client.bodies(queue, 2) == ["one", "two"]


@pytest.mark.rule("TXN-2", "TXN-11")
def test_a_rollback_leaves_nothing_of_it(server: ServerProcess, queue: str) -> None:
    with Backstage(server) as client:
        transaction = Transaction(client)
        assert taken(transaction.send(client.sender(queue), "sent"))
        assert transaction.roll_back() == "aborted"
        client.send(queue, "outside")
        assert client.shown(queue) == ["outside"]


@pytest.mark.rule("TXN-1", "TXN-2")
def test_receive_send_and_complete_as_one(server: ServerProcess, queue: str) -> None:
    with Backstage(server) as client:
        client.send(queue, "in")
        receiver = client.receiver(queue, credit=1)
        ((_, delivery),) = receiver.wait_for(1)
        transaction = Transaction(client)
        assert taken(transaction.settle(delivery, Delivery.ACCEPTED))
        assert taken(transaction.send(client.sender(queue), "out"))
        assert client.shown(queue) == ["in"], "a completed message is there until the commit"
        assert transaction.commit() == "committed"
        assert client.shown(queue) == ["out"]


@pytest.mark.rule("TXN-1", "DLQ-3")
@pytest.mark.parametrize(
    ("outcome", "fields", "main", "letters"),
    [
        (Delivery.ACCEPTED, [], [], []),
        (Delivery.MODIFIED, [True, False], [("in", ACTIVE)], []),
        (Delivery.MODIFIED, [False, True], [("in", DEFERRED)], []),
        (Delivery.REJECTED, [], [], ["in"]),
        (Delivery.RELEASED, [], [("in", ACTIVE)], []),
    ],
    ids=["complete", "abandon", "defer", "dead-letter", "release"],
)
def test_every_settlement_takes_effect_at_the_commit(
    server: ServerProcess,
    queue: str,
    outcome: int,
    fields: list[object],
    main: list[tuple[str, int]],
    letters: list[str],
) -> None:
    with Backstage(server) as client:
        client.send(queue, "in")
        receiver = client.receiver(queue, credit=1)
        ((_, delivery),) = receiver.wait_for(1)
        transaction = Transaction(client)
        assert taken(transaction.settle(delivery, outcome, fields))
        assert client.shown(dead(queue)) == []
        other = client.receiver(queue, credit=1)
        client.send(queue, "next")
        ((message, _),) = other.wait_for(1)
        assert bytes(message.body) == b"next", "the other one is locked until the commit"
        assert transaction.commit() == "committed"
        other.close()
        shown = [(item.body, item.state) for item in client.peek(queue) if item.body == "in"]
        assert shown == main
        assert client.shown(dead(queue)) == letters


@pytest.mark.rule("DLQ-3")
def test_dead_letters_take_part(server: ServerProcess, queue: str) -> None:
    with Backstage(server) as client:
        client.send(queue, "bad")
        receiver = client.receiver(queue, credit=1)
        ((_, delivery),) = receiver.wait_for(1)
        receiver.settle(delivery, Delivery.REJECTED)
        morgue = client.receiver(dead(queue), credit=1)
        ((_, delivery),) = morgue.wait_for(1)
        transaction = Transaction(client)
        assert taken(transaction.settle(delivery, Delivery.ACCEPTED))
        assert taken(transaction.send(client.sender(queue), "again"))
        assert transaction.commit() == "committed"
        assert client.shown(dead(queue)) == []
        receiver.close()
        assert client.take(queue, 1)[0].body == "again"


@pytest.mark.rule("TXN-16")
def test_after_a_rollback_the_message_is_still_locked(server: ServerProcess, queue: str) -> None:
    with Backstage(server) as client:
        client.send(queue, "in")
        receiver = client.receiver(queue, credit=1)
        ((message, delivery),) = receiver.wait_for(1)
        token = message.instructions[LOCK_TOKEN]
        transaction = Transaction(client)
        assert taken(transaction.settle(delivery, Delivery.ACCEPTED))
        assert transaction.roll_back() == "aborted"
        other = client.receiver(queue, credit=1)
        client.send(queue, "next")
        ((message, _),) = other.wait_for(1)
        assert bytes(message.body) == b"next"
        assert client.management(queue).settle("completed", token).status == 200
        assert client.shown(queue) == ["next"]


@pytest.mark.rule("TXN-16", "LCK-5")
def test_a_lock_that_lapsed_is_told_and_nothing_is_committed(
    server: ServerProcess, queues: Queues
) -> None:
    queue = queues.fresh("brief")
    with Backstage(server) as client:
        client.send(queue, "in")
        loser = client.receiver(queue, credit=1)
        ((_, lost),) = loser.wait_for(1)
        holder = client.receiver(queue, credit=1)
        holder.wait_for(1)
        transaction = Transaction(client)
        assert taken(transaction.send(client.sender(queue), "out"))
        assert refusal(transaction.settle(lost, Delivery.ACCEPTED))[0] == INVALID_LOCK
        assert transaction.commit() == "not committed"
        condition, text = transaction.refusal
        assert condition == "amqp:transaction:rollback" and "TrackingId:" in text
        assert client.shown(queue) == ["in"]


@pytest.mark.rule("TXN-12", "LCK-5")
def test_a_lock_that_lapses_before_the_commit_fails_it(
    server: ServerProcess, queues: Queues
) -> None:
    queue = queues.fresh("brief")
    with Backstage(server) as client:
        client.send(queue, "in")
        receiver = client.receiver(queue, credit=1)
        ((_, delivery),) = receiver.wait_for(1)
        transaction = Transaction(client)
        assert taken(transaction.settle(delivery, Delivery.ACCEPTED))
        assert taken(transaction.send(client.sender(queue), "out"))
        client.receiver(queue, credit=1).wait_for(1)
        assert transaction.commit() == "not committed"
        assert transaction.refusal[0] == "amqp:transaction:rollback"
        assert client.shown(queue) == ["in"]


@pytest.mark.rule("TXN-12")
def test_a_queue_without_room_fails_the_commit_as_a_whole(
    server: ServerProcess, queues: Queues
) -> None:
    queue = queues.fresh("tiny")
    with Backstage(server) as client:
        client.send(queue, "in")
        receiver = client.receiver(queue, credit=1)
        ((_, delivery),) = receiver.wait_for(1)
        transaction = Transaction(client)
        sender = client.sender(queue)
        assert taken(transaction.settle(delivery, Delivery.ACCEPTED))
        for _ in range(2):
            assert taken(transaction.send(sender, Message(body=b"x" * 600_000, inferred=True)))
        assert transaction.commit() == "not committed"
        condition, text = transaction.refusal
        assert condition == "amqp:transaction:rollback" and "maximum entity size" in text
        assert client.shown(queue) == ["in"]


@pytest.mark.rule("TXN-8", "QTA-15")
def test_a_hundred_messages_and_not_one_more(server: ServerProcess, queue: str) -> None:
    with Backstage(server) as client:
        sender = client.sender(queue)
        full = Transaction(client)
        deliveries = [full.post(sender, Message(body=number)) for number in range(100)]
        client.wait(lambda: all(bool(d.settled) for d in deliveries), "all answers")
        assert full.commit() == "committed"
        assert client.bodies(queue, 100) == list(range(100))
        over = Transaction(client)
        for number in range(100):
            over.post(sender, Message(body=number))
        condition, text = refusal(over.send(sender, "one more"))
        assert condition == "amqp:resource-limit-exceeded"
        assert "more than 100 messages in a single transaction" in text
        assert over.commit() == "not committed"
        assert client.shown(queue) == []


def cut(client: Backstage) -> None:
    """The network fails: neither side has said anything."""
    handle = os.dup(client.blocking.conn.transport._selectable.fileno())
    with socket.socket(fileno=handle) as wire:
        wire.shutdown(socket.SHUT_RDWR)


@pytest.mark.rule("TXN-11")
def test_a_lost_connection_rolls_back(server: ServerProcess, queue: str) -> None:
    lost = Backstage(server)
    lost.send(queue, "in")
    receiver = lost.receiver(queue, credit=1)
    ((message, delivery),) = receiver.wait_for(1)
    token = message.instructions[LOCK_TOKEN]
    transaction = Transaction(lost)
    assert taken(transaction.send(lost.sender(queue), "out"))
    assert taken(transaction.settle(delivery, Delivery.ACCEPTED))
    cut(lost)
    with Backstage(server) as client:
        assert client.management(queue).settle("abandoned", token).status == 200
        assert client.shown(queue) == ["in"]


@pytest.mark.rule("TXN-11")
def test_closing_the_control_link_rolls_back(server: ServerProcess, queue: str) -> None:
    with Backstage(server) as client:
        transaction = Transaction(client)
        sender = client.sender(queue)
        assert taken(transaction.send(sender, "out"))
        control = client.blocking.conn._txn_ctrl
        control.close()
        client.wait(lambda: bool(control.state & control.REMOTE_CLOSED), "the control link's end")
        assert refusal(transaction.send(sender, "more"))[0] == UNKNOWN
        assert client.shown(queue) == []


@pytest.mark.rule("TXN-11")
def test_several_transactions_of_one_control_link_do_not_mix(
    server: ServerProcess, queues: Queues
) -> None:
    left, right = queues.fresh(), queues.fresh()
    with Backstage(server) as client:
        first, second, third = [Transaction(client) for _ in range(3)]
        to_left, to_right = client.sender(left), client.sender(right)
        assert taken(first.send(to_left, "1"))
        assert taken(second.send(to_right, "2"))
        assert taken(third.send(to_left, "3"))
        assert third.roll_back() == "aborted"
        assert second.commit() == "committed"
        assert first.commit() == "committed"
        assert (client.shown(left), client.shown(right)) == (["1"], ["2"])


@pytest.mark.rule("TXN-12", "ERR-21")
def test_an_unknown_id_is_a_transaction_error(server: ServerProcess, queue: str) -> None:
    with Backstage(server) as client:
        transaction = Transaction(client)
        assert transaction.commit() == "committed"
        assert refusal(transaction.send(client.sender(queue), "late"))[0] == UNKNOWN
        assert transaction.commit() == "not committed"
        assert transaction.refusal[0] == UNKNOWN


@pytest.mark.rule("TXN-10")
def test_receive_and_delete_is_never_part_of_it(server: ServerProcess, queue: str) -> None:
    with Backstage(server) as client:
        client.send(queue, "in")
        transaction = Transaction(client)
        assert taken(transaction.send(client.sender(queue), "out"))
        assert client.bodies(queue, 1) == ["in"]
        assert transaction.roll_back() == "aborted"
        assert client.shown(queue) == [], "what was received so is gone whatever becomes of it"


@pytest.mark.rule("TXN-9", "TXN-2")
def test_a_refused_operation_is_not_tried_again_and_leaves_nothing_to_commit(
    server: ServerProcess, queue: str
) -> None:
    with Backstage(server) as client:
        transaction = Transaction(client)
        sender = client.sender(queue)
        assert taken(transaction.send(sender, "one"))
        clash = text_message("two", group_id="a", annotations={symbol("x-opt-partition-key"): "b"})
        assert refusal(transaction.send(sender, clash))[0] == "amqp:not-allowed"
        assert refusal(transaction.send(sender, "three"))[0] == "amqp:transaction:rollback"
        assert transaction.commit() == "not committed"
        assert client.shown(queue) == []


@pytest.mark.rule("DUP-9")
def test_a_rollback_leaves_no_message_id_behind(server: ServerProcess, queues: Queues) -> None:
    queue = queues.fresh("unique")
    with Backstage(server) as client:
        sender = client.sender(queue)
        for end in (Transaction.roll_back, Transaction.commit, Transaction.commit):
            transaction = Transaction(client)
            assert taken(transaction.send(sender, Message(body=end.__name__, id="same")))
            assert end(transaction) in ("aborted", "committed")
        assert client.shown(queue) == ["commit"], "a rollback is forgotten, a commit is not"


@pytest.mark.rule("DUP-9")
def test_a_commit_that_fails_leaves_no_message_id_behind(
    server: ServerProcess, queues: Queues
) -> None:
    queue = queues.fresh("unique")
    with Backstage(server) as client:
        sender = client.sender(queue)
        client.send(queue, Message(body="in", id="in"))
        receiver = client.receiver(queue, credit=1)
        ((message, delivery),) = receiver.wait_for(1)
        transaction = Transaction(client)
        assert taken(transaction.send(sender, Message(body="lost", id="same")))
        assert taken(transaction.settle(delivery, Delivery.ACCEPTED))
        token = message.instructions[LOCK_TOKEN]
        assert client.management(queue).settle("completed", token).status == 200
        assert transaction.commit() == "not committed"
        client.send(queue, Message(body="kept", id="same"))
        assert client.shown(queue) == ["kept"]


@pytest.mark.rule("TXN-2")
def test_a_client_that_never_waits_gets_all_or_nothing(server: ServerProcess, queue: str) -> None:
    with Backstage(server) as client:
        client.send(queue, "in")
        receiver = client.receiver(queue, credit=1)
        ((_, delivery),) = receiver.wait_for(1)
        sender = client.sender(queue)
        client.wait(lambda: sender.link.credit > 0, "credit to send")
        transaction = Transaction(client)
        transaction.proton.accept(delivery)
        for body in ("one", "two", "three"):
            transaction.post(sender, text_message(body))
        assert transaction.commit() == "committed"
        assert client.shown(queue) == ["one", "two", "three"]
