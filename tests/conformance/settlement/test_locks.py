"""Locks with the stock Python client: renewal, lapse, settlement by token, what is lost."""

import uuid
from collections.abc import Callable

import pytest

pytest.importorskip("proton", reason="needs Qpid Proton, which is built with a C compiler")

from azure.servicebus import AutoLockRenewer, ServiceBusReceivedMessage, ServiceBusReceiver
from azure.servicebus.exceptions import MessageAlreadySettled, MessageLockLostError
from proton import ConnectionException, Delivery, symbol

from conformance.settlement.backstage import (
    ACTIVE,
    DEFERRED,
    Backstage,
    dead,
    text_message,
)
from conformance.settlement.bus import RECEIVE_AND_DELETE, Bus
from conformance.settlement.namespace import Queues
from conformance.settlement.relay import Relay
from conformance.settlement.steps import TICK, seconds, until, utc_now
from support.proton.client import LOCK_TOKEN, Client, SettlesSecond
from support.receiving import collect
from support.server import ServerProcess

pytestmark = pytest.mark.group("proton")

LOCK_LOST = "com.microsoft:message-lock-lost"
LOCK = seconds(3)  # of the queues of the kind "renewed"

# Every operation that needs the lock, as the client offers it.
OPERATIONS: dict[str, Callable[[ServiceBusReceiver, ServiceBusReceivedMessage], object]] = {
    "complete": lambda receiver, message: receiver.complete_message(message),
    "abandon": lambda receiver, message: receiver.abandon_message(message),
    "defer": lambda receiver, message: receiver.defer_message(message),
    "dead-letter": lambda receiver, message: receiver.dead_letter_message(message, reason="r"),
    "renew": lambda receiver, message: receiver.renew_message_lock(message),
}
# The dispositions of the management node; one r in "defered" is how the wire spells it.
DISPOSITIONS = ("completed", "abandoned", "defered", "suspended")


def token(message: ServiceBusReceivedMessage) -> uuid.UUID:
    return uuid.UUID(str(message.lock_token))


# --- renewal ----------------------------------------------------------------------------------


@pytest.mark.rule("SEED-95", "LCK-1", "LCK-3", "LCK-4")
def test_a_lock_is_renewed_from_now_by_hand_or_by_the_renewer_as_often_as_one_likes(
    bus: Bus, stage: Backstage, queues: Queues
) -> None:
    queue = queues.fresh("renewed")
    receiver = bus.receiver(queue)
    assert receiver.peek_messages() == []
    before = utc_now()
    stage.send(queue, "by hand", "by the renewer")
    by_hand, by_renewer = collect(receiver, 2)
    first = by_hand.locked_until_utc
    assert before + LOCK - TICK <= first <= utc_now() + LOCK + TICK

    def renewed_beyond_the_first_lock() -> bool:
        asked = utc_now()
        until_utc = receiver.renew_message_lock(by_hand)
        assert asked + LOCK - TICK <= until_utc <= utc_now() + LOCK + TICK
        assert until_utc == by_hand.locked_until_utc
        return utc_now() > first + seconds(0.2)

    with AutoLockRenewer() as renewer:
        renewer.register(receiver, by_renewer, max_lock_renewal_duration=60)
        until("the first lock to be history", renewed_beyond_the_first_lock)
        assert by_renewer.auto_renew_error is None
        receiver.complete_message(by_hand)
        receiver.complete_message(by_renewer)
    assert stage.peek(queue) == []


@pytest.mark.rule("LCK-3", "AMQ-4")
def test_several_locks_are_renewed_in_one_request(stage: Backstage, queue: str) -> None:
    stage.send(queue, "one", "two", "three")
    held = stage.receiver(queue, credit=3).wait_for(3)
    tokens = [message.instructions[LOCK_TOKEN] for message, _ in held]
    node = stage.management(queue)
    reply = node.renew(*tokens)
    assert reply.status == 200
    assert len(list(reply.body["expirations"])) == 3
    assert node.settle("completed", tokens[1]).status == 200
    reply = node.renew(*tokens)
    assert (reply.status, reply.condition) == (410, LOCK_LOST)


# --- locks that are lost ----------------------------------------------------------------------


@pytest.mark.rule("SEED-103", "SEED-108", "LCK-5", "ERR-4", "ERR-22")
def test_every_operation_with_a_lost_lock_fails_as_lock_lost(
    bus: Bus, stage: Backstage, queue: str
) -> None:
    stage.send(queue, *OPERATIONS)
    receiver = bus.receiver(queue)
    messages = collect(receiver, len(OPERATIONS))
    # Settled behind the client's back, so that the refusal is the server's.
    assert stage.management(queue).settle("abandoned", *map(token, messages)).status == 200
    for message in messages:
        with pytest.raises(MessageLockLostError) as refusal:
            OPERATIONS[str(message)](receiver, message)
        assert LOCK_LOST in str(refusal.value)
        assert "TrackingId:" in str(refusal.value)
    # Nothing has changed: all are there, once abandoned.
    again = stage.take(queue, len(OPERATIONS))
    assert [bytes(message.body).decode() for message in again] == list(OPERATIONS)
    assert {message.delivery_count for message in again} == {1}
    assert stage.peek(dead(queue)) == []


@pytest.mark.rule("SEED-105", "SEED-106", "LCK-5")
def test_after_a_failed_complete_the_message_comes_again_under_its_id(
    bus: Bus, stage: Backstage, queues: Queues
) -> None:
    queue = queues.fresh("brief")
    stage.send(queue, text_message("work", id="order-7"))
    receiver, other = bus.receiver(queue), bus.receiver(queue)
    (first,) = collect(receiver, 1)
    (again,) = collect(other, 1)
    with pytest.raises(MessageLockLostError):
        receiver.complete_message(first)
    assert first.message_id == again.message_id == "order-7"
    # The work is done already, so the redelivery is only acknowledged.
    other.complete_message(again)
    assert stage.peek(queue) == []


@pytest.mark.rule("LCK-5", "ERR-4")
def test_unknown_foreign_and_lapsed_tokens_are_refused(stage: Backstage, queues: Queues) -> None:
    queue, elsewhere = queues.fresh("brief"), queues.fresh()
    stage.send(queue, "lapsed")
    stage.send(elsewhere, "foreign")
    ((lapsed, _),) = stage.receiver(queue, credit=1).wait_for(1)
    ((foreign, _),) = stage.receiver(elsewhere, credit=1).wait_for(1)
    ((again, _),) = stage.receiver(queue, credit=1).wait_for(1)
    assert again.delivery_count == 1
    node = stage.management(queue)
    for bad in (
        lapsed.instructions[LOCK_TOKEN],
        foreign.instructions[LOCK_TOKEN],
        uuid.UUID(int=0),
        uuid.uuid4(),
    ):
        for reply in (node.renew(bad), *(node.settle(status, bad) for status in DISPOSITIONS)):
            assert (reply.status, reply.condition) == (410, LOCK_LOST)
    assert [(item.body, item.state) for item in stage.peek(queue)] == [("lapsed", ACTIVE)]
    assert stage.management(elsewhere).renew(foreign.instructions[LOCK_TOKEN]).status == 200


@pytest.mark.rule("LCK-9")
def test_settling_twice_fails(bus: Bus, stage: Backstage, queue: str) -> None:
    stage.send(queue, "one", "two")
    receiver = bus.receiver(queue)
    one, two = collect(receiver, 2)
    tokens = token(one), token(two)
    receiver.complete_message(one)
    for operation in OPERATIONS.values():
        with pytest.raises(MessageAlreadySettled):
            operation(receiver, one)
    node = stage.management(queue)
    assert node.settle("completed", tokens[1]).status == 200
    for spent in tokens:
        assert node.settle("completed", spent).condition == LOCK_LOST


@pytest.mark.rule("LCK-8", "SEED-93")
def test_what_was_received_and_deleted_cannot_be_settled(
    bus: Bus, stage: Backstage, queue: str
) -> None:
    stage.send(queue, "gone")
    receiver = bus.receiver(queue, receive_mode=RECEIVE_AND_DELETE)
    (message,) = collect(receiver, 1)
    assert message.lock_token is None
    assert message.locked_until_utc is None
    for operation in OPERATIONS.values():
        with pytest.raises(ValueError, match="RECEIVE_AND_DELETE"):
            operation(receiver, message)


# --- settlement by token ----------------------------------------------------------------------


@pytest.mark.rule("LCK-6", "LCK-10", "AMQ-4")
def test_a_token_suffices_to_settle_from_another_connection(
    bus: Bus, stage: Backstage, queue: str
) -> None:
    stage.send(queue, *(text_message(each, properties={"kept": 1}) for each in DISPOSITIONS))
    held = {str(message): token(message) for message in collect(bus.receiver(queue), 4)}
    node = stage.management(queue)
    changes = {"changed": "yes"}
    assert node.settle("completed", held["completed"]).status == 200
    for status in ("abandoned", "defered", "suspended"):
        reply = node.settle(status, held[status], properties_to_modify=changes)
        assert (reply.status, reply.body) == (200, {})
    expected = {"kept": 1, "changed": "yes"}
    shown = stage.peek(queue)
    assert [(item.body, item.state) for item in shown] == [
        ("abandoned", ACTIVE),
        ("defered", DEFERRED),
    ]
    assert [item.message.properties for item in shown] == [expected, expected]
    assert [item.message.delivery_count for item in shown] == [1, 1]
    (letter,) = stage.take_dead(queue, 1)
    assert letter.properties == expected


@pytest.mark.rule("AMQ-4", "ERR-14")
def test_an_unknown_disposition_is_refused(stage: Backstage, queue: str) -> None:
    stage.send(queue, "held")
    ((message, _),) = stage.receiver(queue, credit=1).wait_for(1)
    held = message.instructions[LOCK_TOKEN]
    node = stage.management(queue)
    reply = node.settle("forgotten", held)
    assert (reply.status, reply.condition) == (400, "com.microsoft:argument-error")
    assert node.settle("completed", held).status == 200


@pytest.mark.rule("AMQ-2", "LCK-10")
@pytest.mark.parametrize("is_deferred", [False, True])
def test_settlement_on_the_link_may_change_properties(
    stage: Backstage, queue: str, is_deferred: bool
) -> None:
    stage.send(queue, text_message("one", properties={"kept": 1, "tries": 1, "nil": 2}))
    receiver = stage.receiver(queue, credit=1)
    for tries in (2, 3):
        ((_, delivery),) = receiver.wait_for(1)
        delivery.local.annotations = {
            symbol("tries"): tries,
            symbol("nil"): None,
            symbol("id"): uuid.UUID(int=tries),
        }
        delivery.local.undeliverable = is_deferred and tries == 3
        answer = receiver.settle(delivery, Delivery.MODIFIED)
        assert answer.remote_state == Delivery.MODIFIED
        receiver.link.flow(1)
    (shown,) = stage.peek(queue)
    assert shown.state == (DEFERRED if is_deferred else ACTIVE)
    assert shown.message.properties == {
        "kept": 1,
        "tries": 3,
        "nil": None,
        "id": uuid.UUID(int=3),
    }


# --- the end of a link or a connection ----------------------------------------------------------


@pytest.mark.rule("LCK-7", "LCK-6", "SEED-96", "DLV-1", "SEQ-8")
def test_a_lock_outlives_its_link_until_it_lapses(stage: Backstage, queues: Queues) -> None:
    queue = queues.fresh("brief")
    stage.send(queue, "one", "two")
    receiver = stage.receiver(queue, credit=1)
    ((first, _),) = receiver.wait_for(1)
    receiver.close()
    other = stage.receiver(queue, credit=2)
    ((second, _),) = other.wait_for(1)
    assert bytes(second.body) == b"two", "the first is still locked"
    ((again, _),) = other.wait_for(1)
    assert bytes(again.body) == b"one"
    assert (first.delivery_count, again.delivery_count) == (0, 1)


@pytest.mark.rule("SEED-104", "LCK-6", "DLV-1")
def test_a_broken_connection_costs_the_delivery(
    server: ServerProcess, stage: Backstage, queues: Queues
) -> None:
    queue = queues.fresh("brief")
    stage.send(queue, "held")
    with Relay(server.ready.amqp_port) as relay:
        broken = Client(relay)
        receiver = broken.receiver(queue, credit=1)
        ((first, delivery),) = receiver.wait_for(1)
        name = receiver.link.name
        relay.cut()
        with pytest.raises(ConnectionException):
            receiver.settle(delivery, Delivery.ACCEPTED)
    # A link of the same name on another connection does not bring the delivery back.
    resumed = stage.blocking.create_receiver(queue, credit=0, name=name, options=SettlesSecond())
    resumed.link.flow(1)
    stage.wait(lambda: bool(resumed.fetcher.incoming), "the message after its lock has lapsed")
    again, _ = resumed.fetcher.incoming.popleft()
    assert again.delivery_count == first.delivery_count + 1
    assert again.instructions[LOCK_TOKEN] != first.instructions[LOCK_TOKEN]


@pytest.mark.rule("PRE-1", "PRE-2", "SEED-95")
def test_the_lock_runs_while_a_message_waits_in_the_buffer(
    stage: Backstage, queues: Queues
) -> None:
    queue = queues.fresh("brief")
    stage.send(queue, "one", "two")
    receiver = stage.receiver(queue, credit=2)
    stage.wait(lambda: receiver.arrived == 2, "both messages in the buffer")
    # Nobody looks at them; others get both when the locks have lapsed.
    again = stage.take(queue, 2)
    assert [message.delivery_count for message in again] == [1, 1]
    for _, delivery in receiver.wait_for(2):
        answer = receiver.settle(delivery, Delivery.ACCEPTED)
        assert answer.remote_state == Delivery.REJECTED
        assert answer.remote.condition.name == LOCK_LOST
