"""Deferral with the stock Python client: set aside, received by number, settled in every way."""

import datetime

import pytest

pytest.importorskip("proton", reason="needs Qpid Proton, which is built with a C compiler")

from azure.servicebus import ServiceBusMessageState, ServiceBusReceivedMessage, ServiceBusReceiver
from azure.servicebus.exceptions import MessageNotFoundError

from conformance.settlement.backstage import ACTIVE, DEFERRED, Backstage, dead, text_message
from conformance.settlement.bus import RECEIVE_AND_DELETE, Bus
from conformance.settlement.namespace import Queues
from conformance.settlement.steps import utc_now
from support.receiving import collect

pytestmark = pytest.mark.group("proton")

UNKNOWN = 10_000


def defer(
    receiver: ServiceBusReceiver, stage: Backstage, queue: str, *texts: str
) -> list[ServiceBusReceivedMessage]:
    """Send messages and set them aside."""
    stage.send(queue, *texts)
    messages = collect(receiver, len(texts))
    for message in messages:
        receiver.defer_message(message)
    return messages


@pytest.mark.rule("SEED-102", "DEF-1", "DEF-2", "DEF-4", "DLV-3", "CON-25", "SEQ-8")
def test_a_deferred_message_leaves_the_flow_and_is_received_by_its_number(
    bus: Bus, stage: Backstage, queue: str
) -> None:
    receiver = bus.receiver(queue)
    (message,) = defer(receiver, stage, queue, "set aside")
    stage.send(queue, "next")
    (shown, _) = receiver.peek_messages(max_message_count=10, sequence_number=1)
    assert shown.state == ServiceBusMessageState.DEFERRED
    assert shown.sequence_number == message.sequence_number
    assert stage.bodies(queue, 1) == ["next"]
    # Any receiver that knows the number may have it.
    other = bus.receiver(queue)
    (again,) = other.receive_deferred_messages(message.sequence_number)
    assert str(again) == "set aside"
    assert again.sequence_number == message.sequence_number
    assert again.message_id == message.message_id
    assert again.state == ServiceBusMessageState.DEFERRED
    assert message.state == ServiceBusMessageState.ACTIVE
    assert (message.delivery_count, again.delivery_count) == (0, 1)
    assert again.lock_token != message.lock_token
    assert again.locked_until_utc > utc_now()
    other.complete_message(again)
    assert stage.peek(queue) == []


@pytest.mark.rule("DEF-2")
def test_deferred_messages_are_received_and_deleted(bus: Bus, stage: Backstage, queue: str) -> None:
    one, two, three = defer(bus.receiver(queue), stage, queue, "one", "two", "three")
    taker = bus.receiver(queue, receive_mode=RECEIVE_AND_DELETE)
    taken = taker.receive_deferred_messages([three.sequence_number, one.sequence_number])
    assert sorted(str(message) for message in taken) == ["one", "three"]
    assert [(item.body, item.number) for item in stage.peek(queue)] == [
        ("two", two.sequence_number)
    ]
    with pytest.raises(MessageNotFoundError):
        taker.receive_deferred_messages(one.sequence_number)


@pytest.mark.rule("DEF-5", "DLV-1", "DLV-3")
def test_a_deferred_message_is_settled_in_every_way(bus: Bus, stage: Backstage, queue: str) -> None:
    receiver = bus.receiver(queue)
    (message,) = defer(receiver, stage, queue, "set aside")
    number = message.sequence_number

    (message,) = receiver.receive_deferred_messages(number)
    receiver.abandon_message(message)
    assert [item.state for item in stage.peek(queue)] == [DEFERRED], "back to the deferred ones"

    (message,) = receiver.receive_deferred_messages(number)
    assert message.delivery_count == 2, "abandon counts"
    assert message.state == ServiceBusMessageState.DEFERRED
    receiver.defer_message(message)
    assert [item.state for item in stage.peek(queue)] == [DEFERRED]

    (message,) = receiver.receive_deferred_messages(number)
    assert message.delivery_count == 3, "deferring counts"
    assert message.state == ServiceBusMessageState.DEFERRED
    before = message.locked_until_utc
    assert receiver.renew_message_lock(message) >= before
    receiver.dead_letter_message(message, reason="enough", error_description="of it")
    assert stage.peek(queue) == []
    (letter,) = stage.take_dead(queue, 1)
    assert letter.properties == {
        "DeadLetterReason": "enough",
        "DeadLetterErrorDescription": "of it",
    }


@pytest.mark.rule("DEF-3", "ERR-7")
def test_numbers_that_are_not_deferred_are_not_found(
    bus: Bus, stage: Backstage, queue: str
) -> None:
    receiver = bus.receiver(queue)
    locked, free = defer(receiver, stage, queue, "locked", "free")
    receiver.receive_deferred_messages(locked.sequence_number)
    stage.send(queue, "active")
    (active,) = [item.number for item in stage.peek(queue) if item.state == ACTIVE]
    for absent in (
        UNKNOWN,
        active,
        locked.sequence_number,
        [free.sequence_number, UNKNOWN],
    ):
        with pytest.raises(MessageNotFoundError):
            receiver.receive_deferred_messages(absent)
    # The call that failed as a whole has locked nothing.
    (message,) = receiver.receive_deferred_messages(free.sequence_number)
    receiver.complete_message(message)


@pytest.mark.rule("DEF-5", "DLV-1", "LCK-7")
def test_a_deferred_message_whose_lock_lapses_is_deferred_again(
    stage: Backstage, queues: Queues
) -> None:
    queue = queues.fresh("brief")
    stage.send(queue, "set aside", "flowing")
    receiver = stage.receiver(queue, credit=1)
    ((message, delivery),) = receiver.wait_for(1)
    delivery.local.undeliverable = True
    receiver.settle(delivery, delivery.MODIFIED)
    node = stage.management(queue)
    number = stage.peek(queue)[0].number
    assert node.receive_deferred(number).status == 200
    assert node.receive_deferred(number).condition == "com.microsoft:message-not-found"
    while (reply := node.receive_deferred(number)).status != 200:
        assert reply.condition == "com.microsoft:message-not-found"
    (again,) = reply.messages()
    assert again.delivery_count == message.delivery_count + 2
    assert stage.bodies(queue, 1) == ["flowing"]


@pytest.mark.rule("DEF-5", "DLV-2")
def test_abandoning_a_deferred_message_too_often_dead_letters_it(
    bus: Bus, stage: Backstage, queues: Queues
) -> None:
    queue = queues.fresh("fragile")  # two deliveries
    receiver = bus.receiver(queue)
    (message,) = defer(receiver, stage, queue, "poison")
    (again,) = receiver.receive_deferred_messages(message.sequence_number)
    receiver.abandon_message(again)  # the delivery that deferred it was the first
    (letter,) = stage.take_dead(queue, 1)
    assert letter.properties["DeadLetterReason"] == "MaxDeliveryCountExceeded"


@pytest.mark.rule("DEF-8", "BAT-6")
def test_purging_by_receive_and_by_batch_delete_leaves_deferred_messages(
    bus: Bus, stage: Backstage, queue: str
) -> None:
    (message,) = defer(bus.receiver(queue), stage, queue, "set aside")
    stage.send(queue, "one", "two")
    assert stage.bodies(queue, 1) == ["one"]
    later_ms = int((utc_now() + datetime.timedelta(hours=1)).timestamp() * 1000)
    node = stage.management(queue)
    assert node.delete_batch(100, later_ms).body == {"message-count": 1}
    assert node.delete_batch(100, later_ms).status == 204
    assert [item.number for item in stage.peek(queue)] == [message.sequence_number]


@pytest.mark.rule("DEF-2", "DLQ-3")
def test_a_dead_letter_is_deferred_and_received_by_its_number(
    bus: Bus, stage: Backstage, queue: str
) -> None:
    stage.send(queue, text_message("bad"))
    receiver = stage.receiver(queue, credit=1)
    ((_, delivery),) = receiver.wait_for(1)
    receiver.settle(delivery, delivery.REJECTED)
    letters = bus.dead_letters(queue)
    (letter,) = collect(letters, 1)
    letters.defer_message(letter)
    assert [item.state for item in stage.peek(dead(queue))] == [DEFERRED]
    (again,) = letters.receive_deferred_messages(letter.sequence_number)
    letters.complete_message(again)
    assert stage.peek(dead(queue)) == []
