"""Scheduled messages with the stock Python client: schedule, activation, cancel."""

import datetime

import pytest

pytest.importorskip("proton", reason="needs Qpid Proton, which is built with a C compiler")

from azure.servicebus import ServiceBusMessage, ServiceBusMessageState
from azure.servicebus.exceptions import MessageNotFoundError, MessageSizeExceededError

from conformance.settlement.backstage import ACTIVE, SCHEDULED, Backstage
from conformance.settlement.bus import Bus
from conformance.settlement.namespace import Queues
from conformance.settlement.steps import TICK, seconds, utc_now
from support.proton.client import ENQUEUED_TIME, SEQUENCE_NUMBER
from support.receiving import bodies, collect

pytestmark = pytest.mark.group("proton")

LATER = datetime.timedelta(hours=1)
UNKNOWN = 10_000


def texts(*bodies: str) -> list[ServiceBusMessage]:
    return [ServiceBusMessage(body) for body in bodies]


@pytest.mark.rule("SCH-1", "SCH-2", "SCH-4", "SCH-5", "SEQ-8", "DEF-3")
def test_a_scheduled_message_is_hidden_until_its_time_and_then_newly_numbered(
    bus: Bus, stage: Backstage, queue: str
) -> None:
    sender, receiver = bus.sender(queue), bus.receiver(queue)
    assert receiver.peek_messages() == []
    due = utc_now() + seconds(1)
    (number,) = sender.schedule_messages(texts("due"), due)
    stage.send(queue, "at once")
    shown = stage.peek(queue)
    assert [(item.body, item.state) for item in shown] == [("due", SCHEDULED), ("at once", ACTIVE)]
    assert shown[0].number == number
    with pytest.raises(MessageNotFoundError):
        receiver.receive_deferred_messages(number)
    first, second = collect(receiver, 2)
    assert bodies([first, second]) == ["at once", "due"]
    assert second.sequence_number > first.sequence_number > number
    assert second.enqueued_time_utc >= due - TICK
    assert first.state == ServiceBusMessageState.ACTIVE
    assert second.state == ServiceBusMessageState.SCHEDULED
    receiver.complete_message(first)
    receiver.complete_message(second)
    assert stage.peek(queue) == []


@pytest.mark.rule("SCH-1", "SCH-2", "SCH-4", "MSG-2")
def test_a_message_sent_with_a_time_is_scheduled(bus: Bus, stage: Backstage, queue: str) -> None:
    sender = bus.sender(queue)
    sender.send_messages(ServiceBusMessage("before"))
    due = utc_now() + seconds(0.7)
    sender.send_messages(ServiceBusMessage("due", scheduled_enqueue_time_utc=due))
    stage.send(queue, "after")
    assert [item.state for item in stage.peek(queue)] == [ACTIVE, SCHEDULED, ACTIVE]
    messages = stage.take(queue, 3)
    numbers = [message.annotations[SEQUENCE_NUMBER] for message in messages]
    assert [bytes(message.body) for message in messages] == [b"before", b"after", b"due"]
    assert numbers == [numbers[0], numbers[0] + 2, numbers[0] + 3]
    assert messages[2].annotations[ENQUEUED_TIME] >= int(due.timestamp() * 1000)


@pytest.mark.rule("SCH-4", "TTL-1")
def test_time_to_live_begins_at_activation(bus: Bus, queues: Queues) -> None:
    queue = queues.fresh("fleeting")  # one second to live, then a dead letter
    bus.sender(queue).schedule_messages(texts("due"), utc_now() + seconds(1.5))
    receiver = bus.receiver(queue)
    (message,) = collect(receiver, 1)
    assert message.time_to_live == seconds(1)
    assert message.expires_at_utc == message.enqueued_time_utc + seconds(1)
    receiver.complete_message(message)


@pytest.mark.rule("SCH-6")
def test_a_time_in_the_past_means_at_once_at_the_tail(
    bus: Bus, stage: Backstage, queue: str
) -> None:
    past = utc_now() - LATER
    sender = bus.sender(queue)
    sender.send_messages(ServiceBusMessage("one"))
    (number,) = sender.schedule_messages(texts("scheduled"), past)
    sender.send_messages(ServiceBusMessage("sent", scheduled_enqueue_time_utc=past))
    sender.send_messages(ServiceBusMessage("two"))
    shown = stage.peek(queue)
    assert [item.body for item in shown] == ["one", "scheduled", "sent", "two"]
    assert {item.state for item in shown} == {ACTIVE}
    assert [item.number for item in shown] == [number - 1, number, number + 1, number + 2]
    assert stage.bodies(queue, 4) == ["one", "scheduled", "sent", "two"]


@pytest.mark.rule("SCH-1", "SCH-5", "SCH-6")
def test_messages_become_active_in_the_order_of_their_times_and_once(
    bus: Bus, stage: Backstage, queue: str
) -> None:
    sender = bus.sender(queue)
    sender.schedule_messages(texts("opens the link"), utc_now())
    start = utc_now()
    numbers = [
        *sender.schedule_messages(texts("third", "fourth"), start + seconds(0.8)),
        *sender.schedule_messages(texts("second"), start + seconds(0.6)),
    ]
    assert numbers == list(range(numbers[0], numbers[0] + 3))
    assert stage.bodies(queue, 4) == ["opens the link", "second", "third", "fourth"]
    assert stage.peek(queue) == []


@pytest.mark.rule("SCH-3")
def test_a_cancelled_message_never_comes(bus: Bus, stage: Backstage, queue: str) -> None:
    sender = bus.sender(queue)
    due = utc_now() + seconds(1)
    (number,) = sender.schedule_messages(texts("cancelled"), due)
    sender.schedule_messages(texts("witness"), due + seconds(0.1))
    sender.cancel_scheduled_messages(number)
    assert stage.shown(queue) == ["witness"]
    assert stage.bodies(queue, 1) == ["witness"]
    assert stage.peek(queue) == []


@pytest.mark.rule("SCH-3", "SCH-4", "ERR-7")
def test_cancelling_what_is_not_scheduled_is_an_error(
    bus: Bus, stage: Backstage, queue: str
) -> None:
    sender = bus.sender(queue)
    (cancelled,) = sender.schedule_messages(texts("cancelled twice"), utc_now() + LATER)
    sender.cancel_scheduled_messages(cancelled)
    (activated,) = sender.schedule_messages(texts("due"), utc_now() + seconds(0.1))
    assert stage.bodies(queue, 1) == ["due"]
    stage.send(queue, "active")
    (active,) = [item.number for item in stage.peek(queue)]
    for absent in (cancelled, activated, active, UNKNOWN):
        with pytest.raises(MessageNotFoundError) as refusal:
            sender.cancel_scheduled_messages(absent)
        assert f" {absent}" in str(refusal.value)
    assert stage.shown(queue) == ["active"]


@pytest.mark.rule("SCH-8")
def test_a_call_cancels_all_or_none(bus: Bus, stage: Backstage, queue: str) -> None:
    sender = bus.sender(queue)
    numbers = sender.schedule_messages(texts("one", "two"), utc_now() + LATER)
    with pytest.raises(MessageNotFoundError):
        sender.cancel_scheduled_messages([*numbers, UNKNOWN])
    assert stage.shown(queue) == ["one", "two"]
    sender.cancel_scheduled_messages(numbers)
    assert stage.peek(queue) == []


@pytest.mark.rule("SCH-8", "MSG-3", "ERR-8")
def test_a_call_schedules_all_or_none(bus: Bus, stage: Backstage, queues: Queues) -> None:
    queue = queues.fresh("narrow")
    sender = bus.sender(queue)
    with pytest.raises(MessageSizeExceededError):
        sender.schedule_messages(texts("small", "x" * 20_000), utc_now() + LATER)
    assert stage.peek(queue) == []
    numbers = sender.schedule_messages(texts("one", "two", "three"), utc_now() + LATER)
    assert [item.number for item in stage.peek(queue)] == numbers
    assert numbers == list(range(numbers[0], numbers[0] + 3))
