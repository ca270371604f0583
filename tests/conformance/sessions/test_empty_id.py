"""The session id "" names a session like any other; through the stock Python clients."""

import datetime
from typing import Any

import pytest
from azure.servicebus import NEXT_AVAILABLE_SESSION, ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient as AsyncServiceBusClient
from azure.servicebus.exceptions import SessionCannotBeLockedError

from conformance.sessions.bus import SessionBus
from support.receiving import bodies, collect
from support.server import ServerProcess


@pytest.mark.rule("SES-3", "SES-5", "SES-7", "SES-10", "SES-16")
def test_it_is_accepted_by_name(bus: SessionBus, queue: str) -> None:
    bus.send(queue, ("", "1"), ("other", "x"), ("", "2"), ("", "3"))
    receiver = bus.accept(queue, "")
    assert receiver.session.session_id == ""
    with pytest.raises(SessionCannotBeLockedError):
        bus.accept(queue, "")
    assert bodies(receiver.peek_messages(10)) == ["1", "2", "3"]
    messages = collect(receiver, 3)
    assert bodies(messages) == ["1", "2", "3"]
    assert [message.session_id for message in messages] == [""] * 3
    assert receiver.session.get_state() is None
    receiver.session.set_state(b"state")
    assert receiver.session.get_state() == b"state"
    assert receiver.session.renew_lock() > datetime.datetime.now(datetime.UTC)
    first, second, third = messages
    receiver.complete_message(first)
    receiver.defer_message(second)
    receiver.abandon_message(third)
    (deferred,) = receiver.receive_deferred_messages(second.sequence_number)
    assert (str(deferred), deferred.session_id) == ("2", "")
    receiver.complete_message(deferred)
    assert bodies(collect(receiver, 1)) == ["3"]


@pytest.mark.rule("SES-4", "SES-18", "SES-20")
def test_it_is_the_next_available(bus: SessionBus, queue: str) -> None:
    bus.send(queue, ("", "first"), ("other", "second"))
    assert sorted(bus.client.list_queue_sessions(queue)) == ["", "other"]
    receivers = [bus.accept(queue), bus.accept(queue)]
    assert [receiver.session.session_id for receiver in receivers] == ["", "other"]
    assert bodies(collect(receivers[0], 1)) == ["first"]


@pytest.mark.rule("SES-4")
def test_it_is_waited_for(bus: SessionBus, queue: str) -> None:
    bus.send(queue, ("", "first"))
    receiver = bus.accept(queue)
    receiver.complete_message(collect(receiver, 1)[0])
    receiver.close()
    bus.send(queue, ("", "again"))
    assert bodies(collect(bus.accept(queue), 1)) == ["again"]


@pytest.mark.rule("SCH-1", "SCH-3", "DLQ-10")
def test_scheduled_batched_and_dead_letters(bus: SessionBus, queue: str) -> None:
    soon = datetime.datetime.now(datetime.UTC)
    later = soon + datetime.timedelta(hours=1)
    with bus.sender(queue) as sender:
        sender.send_messages([ServiceBusMessage("a", session_id=""), _keyed("b")])
        (cancelled,) = sender.schedule_messages(ServiceBusMessage("never", session_id=""), later)
        sender.cancel_scheduled_messages(cancelled)
        sender.schedule_messages(ServiceBusMessage("c", session_id=""), soon)
    receiver = bus.accept(queue, "")
    messages = collect(receiver, 3)
    assert sorted(bodies(messages)) == ["a", "b", "c"]
    for message in messages:
        receiver.dead_letter_message(message, reason="why")
    dead = collect(bus.dead_letters(queue), 3)
    assert {(message.session_id, message.dead_letter_reason) for message in dead} == {("", "why")}


def _keyed(body: str) -> ServiceBusMessage:
    """With a partition key of its own beside the empty session id."""
    message = ServiceBusMessage(body, session_id="")
    annotations: dict[str | bytes, Any] = {"x-opt-partition-key": "a key"}
    message.raw_amqp_message.annotations = annotations
    return message


@pytest.mark.rule("SEED-33")
def test_a_key_beside_it_is_accepted(bus: SessionBus, queue: str) -> None:
    with bus.sender(queue) as sender:
        sender.send_messages(_keyed("keyed"))
    (message,) = collect(bus.accept(queue, ""), 1)
    assert (str(message), message.partition_key, message.session_id) == ("keyed", "a key", "")


async def test_the_asynchronous_client(server: ServerProcess, queue: str) -> None:
    async with AsyncServiceBusClient.from_connection_string(
        server.connection_string, retry_total=0
    ) as client:
        async with client.get_queue_sender(queue) as sender:
            await sender.send_messages(
                [ServiceBusMessage(body, session_id="") for body in ("1", "2")]
            )
        for wanted in ("", NEXT_AVAILABLE_SESSION):
            async with client.get_queue_receiver(
                queue, session_id=wanted, max_wait_time=10
            ) as receiver:
                assert receiver.session.session_id == ""
                (message,) = await receiver.receive_messages(1, max_wait_time=10)
                assert message.session_id == ""
                await receiver.session.set_state(str(message))
                await receiver.complete_message(message)
        async with client.get_queue_receiver(queue, session_id="") as receiver:
            assert await receiver.session.get_state() == b"2"
