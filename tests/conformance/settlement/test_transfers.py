"""Transfers in and out: pipelined and pre-settled sends, order, receive modes, competition."""

import asyncio
from types import NoneType

import pytest

pytest.importorskip("proton", reason="needs Qpid Proton, which is built with a C compiler")

from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient as AsyncServiceBusClient
from azure.servicebus.exceptions import ServiceBusError, ServiceBusQuotaExceededError
from proton import Delivery, Message
from proton.reactor import AtMostOnce

from conformance.settlement.backstage import Backstage, dead, plain, text_message
from conformance.settlement.bus import Bus
from conformance.settlement.namespace import Queues
from conformance.settlement.relay import Relay
from conformance.settlement.steps import opened
from support.proton.client import ENQUEUED_TIME, LOCKED_UNTIL, SEQUENCE_NUMBER, Client, symbol
from support.receiving import bodies, collect
from support.server import ServerProcess

pytestmark = pytest.mark.group("proton")

DISPOSITION = 0x15
TOO_LONG = "x" * 129  # an id that is refused


# --- sends --------------------------------------------------------------------------------------


@pytest.mark.rule("SEED-85", "SEED-86", "SEED-87", "SEED-80")
def test_sends_on_the_wire_are_settled_one_by_one_and_in_ranges(
    server: ServerProcess, queue: str
) -> None:
    with Relay(server.ready.amqp_port) as relay, Client(relay) as client:
        link = client.sender(queue).link
        client.wait(lambda: link.credit >= 200, "credit")
        # Nothing is read before all is written; every tenth message is to be refused.
        ids = [TOO_LONG if number % 10 == 5 else str(number) for number in range(200)]
        pending = [link.send(Message(body=at, id=each)) for at, each in enumerate(ids)]
        client.wait(lambda: all(delivery.settled for delivery in pending), "settlement")
        refused = [n for n, d in enumerate(pending) if d.remote_state == Delivery.REJECTED]
        accepted = [n for n, d in enumerate(pending) if d.remote_state == Delivery.ACCEPTED]
        assert refused == list(range(5, 200, 10))
        assert len(accepted) == 180
        assert [message.body for message in client.take(queue, 180)] == accepted
        answers = [fields for fields in relay.performatives(DISPOSITION) if fields[0] is True]
        settled = [n for fields in answers for n in range(fields[1], (fields[2] or fields[1]) + 1)]
        assert len(settled) == len(set(settled)) == 200, "each is answered exactly once"
        assert len(answers) < 200, "neighbours of one fate share an answer"


@pytest.mark.rule("SEED-82", "SEED-84", "SEED-87")
async def test_overlapping_sends_to_several_queues_end_each_in_its_own_way(
    server: ServerProcess, stage: Backstage, queues: Queues
) -> None:
    full, *free = queues.fresh("tiny"), queues.fresh(), queues.fresh()
    stage.send(full, Message(body=b"x" * 1_000_000, inferred=True))
    body = b"x" * 100_000
    async with (
        AsyncServiceBusClient.from_connection_string(
            server.connection_string, retry_total=0
        ) as client,
        opened(*(client.get_queue_sender(queue) for queue in (full, *free))) as senders,
    ):
        ends = await asyncio.gather(
            *(
                sender.send_messages(ServiceBusMessage(body))
                for _ in range(10)
                for sender in senders
            ),
            return_exceptions=True,
        )
    assert [type(end) for end in ends] == 10 * [ServiceBusQuotaExceededError, NoneType, NoneType]
    assert len(stage.peek(full)) == 1
    assert [len(stage.take(queue, 10)) for queue in free] == [10, 10]


@pytest.mark.rule("SEED-91", "AMQ-3")
def test_pre_settled_sends_get_no_outcome_either_way(server: ServerProcess, queue: str) -> None:
    with Relay(server.ready.amqp_port) as relay, Client(relay) as client:
        sender = client.sender(queue, pre_settled=True)
        sender.send(Message(body="good"))
        sender.send(Message(body="bad", id=TOO_LONG))
        sender.send(Message(body="good too"))
        assert [message.body for message in client.take(queue, 2)] == ["good", "good too"]
        assert relay.performatives(DISPOSITION) == []


@pytest.mark.rule("BAT-2", "MSG-4", "SEED-83")
def test_a_batch_is_stored_whole_or_not_at_all(bus: Bus, stage: Backstage, queue: str) -> None:
    sender = bus.sender(queue)
    swollen = {str(number): "x" * 20_000 for number in range(4)}
    with pytest.raises(ServiceBusError, match="TrackingId:"):
        sender.send_messages(
            [
                ServiceBusMessage("one"),
                ServiceBusMessage("swollen", application_properties=swollen),
                ServiceBusMessage("two"),
            ]
        )
    assert stage.peek(queue) == []
    sender.send_messages([ServiceBusMessage("one"), ServiceBusMessage("two")])
    shown = stage.peek(queue)
    assert [item.body for item in shown] == ["one", "two"]
    assert shown[1].number == shown[0].number + 1


# --- numbers and times --------------------------------------------------------------------------


@pytest.mark.rule("SEQ-1", "SEQ-2", "SEQ-3", "SEQ-6", "SEQ-7", "MSG-2")
def test_numbers_and_times_are_the_brokers_own(stage: Backstage, queue: str) -> None:
    forged = {SEQUENCE_NUMBER: 999, ENQUEUED_TIME: 1, LOCKED_UNTIL: 1, symbol("x-own"): "kept"}
    stage.send(queue, text_message("one"))
    stage.send(queue, text_message("two", annotations=forged))
    stage.send(queue, text_message("three"))
    shown = stage.peek(queue)
    numbers = [item.number for item in shown]
    assert numbers == [numbers[0], numbers[0] + 1, numbers[0] + 2]
    times = [item.message.annotations[ENQUEUED_TIME] for item in shown]
    assert times == sorted(times)
    assert times[0] > 1_700_000_000_000
    assert LOCKED_UNTIL not in shown[1].message.annotations
    assert shown[1].message.annotations[symbol("x-own")] == "kept"
    messages = stage.take(queue, 3)
    assert [message.annotations[SEQUENCE_NUMBER] for message in messages] == numbers
    assert [message.annotations[ENQUEUED_TIME] for message in messages] == times


@pytest.mark.rule("SEQ-10", "MSG-2")
def test_messages_of_one_partition_key_are_stored_in_the_order_of_sending(
    bus: Bus, queue: str
) -> None:
    sender = bus.sender(queue)
    texts = [str(number) for number in range(20)]
    for text in texts:
        sender.send_messages(ServiceBusMessage(text, partition_key="key"))
    messages = collect(bus.receiver(queue), 20)
    assert bodies(messages) == texts
    assert {message.partition_key for message in messages} == {"key"}


@pytest.mark.rule("SEQ-9", "SEED-81")
def test_consumers_complete_in_any_order(stage: Backstage, queue: str) -> None:
    stage.send(queue, *(str(number) for number in range(4)))
    one, two = stage.receiver(queue, credit=2), stage.receiver(queue, credit=2)
    first, second = one.wait_for(2), two.wait_for(2)
    held = [(one, *each) for each in first] + [(two, *each) for each in second]
    numbers = [message.annotations[SEQUENCE_NUMBER] for _, message, _ in held]
    assert numbers == sorted(numbers), "retrieval follows the sequence"
    for receiver, _, delivery in reversed(held):
        answer = receiver.settle(delivery, Delivery.ACCEPTED)
        assert answer.remote_state == Delivery.ACCEPTED
    assert stage.peek(queue) == []


# --- receives -----------------------------------------------------------------------------------


@pytest.mark.rule("SEED-80", "SEED-81", "SEED-99", "SEED-100", "SEED-102")
def test_settlement_decides_what_becomes_of_a_message(
    bus: Bus, stage: Backstage, queue: str
) -> None:
    stage.send(queue, "completed", "abandoned", "deferred", "dead-lettered")
    receiver = bus.receiver(queue)
    completed, abandoned, deferred, dead_lettered = collect(receiver, 4)
    receiver.complete_message(completed)
    receiver.abandon_message(abandoned)
    receiver.defer_message(deferred)
    receiver.dead_letter_message(dead_lettered)
    assert stage.bodies(queue, 1) == ["abandoned"]
    assert stage.shown(queue) == ["deferred"]
    assert stage.shown(dead(queue)) == ["dead-lettered"]


@pytest.mark.rule("SEED-92", "SEED-93", "PRE-3")
def test_what_is_on_the_wire_to_a_deleting_receiver_is_gone(
    server: ServerProcess, stage: Backstage, queue: str
) -> None:
    stage.send(queue, "one", "two", "three")
    with Relay(server.ready.amqp_port) as relay:
        client = Client(relay)
        receiver = client.receiver(queue, credit=2, option=AtMostOnce())
        client.wait(lambda: receiver.arrived == 2, "two messages in the buffer")
        relay.cut()
    assert stage.shown(queue) == ["three"], "the two that nobody looked at are lost"


@pytest.mark.rule("LCK-2", "SEED-94")
def test_waiting_receivers_are_served_in_the_order_of_their_asking(
    stage: Backstage, queue: str
) -> None:
    receivers = []
    for _ in range(3):
        receivers.append(stage.receiver(queue, credit=1))
        stage.peek(queue)  # a round trip: the credit has arrived
    stage.send(queue, "one", "two", "three")
    got = [message for receiver in receivers for message, _ in receiver.wait_for(1)]
    assert [plain(message.body) for message in got] == ["one", "two", "three"]


@pytest.mark.rule("SEED-97", "CON-15", "SEED-96")
def test_a_released_message_is_again_the_first_in_line(stage: Backstage, queue: str) -> None:
    stage.send(queue, "one", "two", "three", "four")
    receiver = stage.receiver(queue, credit=3)
    one, two, _ = receiver.wait_for(3)
    receiver.settle(two[1], Delivery.MODIFIED)
    receiver.settle(one[1], Delivery.MODIFIED)
    other = stage.receiver(queue, credit=3)
    assert [bytes(message.body) for message, _ in other.wait_for(3)] == [b"one", b"two", b"four"]


@pytest.mark.rule("BAT-5")
def test_a_receive_waits_for_the_first_message_only(bus: Bus, stage: Backstage, queue: str) -> None:
    stage.send(queue, "one", "two")
    # Were the wait for all hundred, the test would run into its time limit.
    messages = bus.receiver(queue).receive_messages(max_message_count=100, max_wait_time=600)
    assert bodies(messages)[0] == "one"


@pytest.mark.rule("DLV-5", "DLV-1", "AMQ-2", "CON-27")
def test_released_messages_do_not_count_however_often(stage: Backstage, queues: Queues) -> None:
    queue = queues.fresh("fragile")  # two deliveries
    stage.send(queue, "patient")
    receiver = stage.receiver(queue)
    for _ in range(5):
        receiver.link.flow(1)
        ((message, delivery),) = receiver.wait_for(1)
        assert message.delivery_count == 0
        answer = receiver.settle(delivery, Delivery.RELEASED)
        assert answer.remote_state == Delivery.RELEASED
    assert stage.shown(queue) == ["patient"]
    assert stage.peek(dead(queue)) == []
