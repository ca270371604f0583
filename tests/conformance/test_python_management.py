"""The stock Python client beyond links: lock renewal, peek, deferral, scheduling, time to live."""

import datetime

import pytest
from azure.servicebus import (
    NEXT_AVAILABLE_SESSION,
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceiveMode,
    ServiceBusSubQueue,
)
from azure.servicebus.exceptions import MessageLockLostError, MessageNotFoundError, ServiceBusError

from support.namespace import Queues
from support.receiving import bodies, collect

RECEIVE_AND_DELETE = ServiceBusReceiveMode.RECEIVE_AND_DELETE
HOUR = datetime.timedelta(hours=1)


def now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def send(client: ServiceBusClient, queue: str, *texts: str) -> None:
    with client.get_queue_sender(queue) as sender:
        sender.send_messages([ServiceBusMessage(text) for text in texts])


@pytest.mark.rule("SEED-95", "LCK-3")
def test_a_renewed_lock_outlives_its_first_term(client: ServiceBusClient, queues: Queues) -> None:
    queue, clock = queues.fresh("steady"), queues.fresh("brief")
    send(client, queue, "held")
    send(client, clock, "tick")
    with client.get_queue_receiver(queue) as receiver, client.get_queue_receiver(clock) as ticking:
        (held,) = collect(receiver, 1)
        first_term = held.locked_until_utc
        collect(ticking, 1)
        while now() < first_term:
            collect(ticking, 1)  # a shorter lock lapses again and again: the clock of this test
            before = held.locked_until_utc
            assert receiver.renew_message_lock(held) > before
        receiver.complete_message(held)


@pytest.mark.rule("LCK-5")
def test_a_lock_that_was_lost_cannot_be_renewed(client: ServiceBusClient, queue: str) -> None:
    send(client, queue, "one")
    with client.get_queue_receiver(queue) as receiver:
        (message,) = collect(receiver, 1)
        receiver.abandon_message(message)
        message._settled = False  # let the server answer, not the client's own memory
        with pytest.raises(MessageLockLostError):
            receiver.renew_message_lock(message)


@pytest.mark.rule("SEED-12", "PEK-1", "PEK-2", "PEK-4")
def test_peek_shows_every_message_in_order_and_takes_none(
    client: ServiceBusClient, queue: str
) -> None:
    send(client, queue, *(str(number) for number in range(6)))
    with client.get_queue_receiver(queue) as receiver, client.get_queue_receiver(queue) as browser:
        locked, deferred = collect(receiver, 2)
        receiver.defer_message(deferred)
        first = browser.peek_messages(max_message_count=4)
        second = browser.peek_messages(max_message_count=4)
        assert bodies(first + second) == [str(number) for number in range(6)]
        assert [message.state.value for message in first] == [0, 1, 0, 0]
        assert {message.lock_token for message in first} == {None}
        assert browser.peek_messages() == []
        again = browser.peek_messages(sequence_number=first[2].sequence_number)
        assert bodies(again) == ["2"]
        receiver.complete_message(locked)


@pytest.mark.rule("PEK-3")
def test_peek_works_on_a_dead_letter_queue(client: ServiceBusClient, queue: str) -> None:
    send(client, queue, "bad")
    with client.get_queue_receiver(queue) as receiver:
        receiver.dead_letter_message(*collect(receiver, 1), reason="test")
    with client.get_queue_receiver(queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as receiver:
        (dead,) = receiver.peek_messages()
        assert (str(dead), dead.dead_letter_reason) == ("bad", "test")


@pytest.mark.rule("SEED-102", "DEF-1", "DEF-2", "DEF-3", "DEF-5", "DLV-3", "ERR-7")
def test_a_deferred_message_is_received_by_its_number_only(
    client: ServiceBusClient, queue: str
) -> None:
    send(client, queue, "later", "next")
    with client.get_queue_receiver(queue) as receiver:
        (later,) = collect(receiver, 1)
        receiver.defer_message(later)
        (following,) = collect(receiver, 1)
        assert str(following) == "next"
        (deferred,) = receiver.receive_deferred_messages(later.sequence_number)
        assert (str(deferred), deferred.delivery_count) == ("later", 1)
        assert deferred.state.value == 1
        with pytest.raises(MessageNotFoundError):
            receiver.receive_deferred_messages(later.sequence_number)
        receiver.abandon_message(deferred)
        (deferred,) = receiver.receive_deferred_messages(later.sequence_number)
        receiver.complete_message(deferred)
        with pytest.raises(MessageNotFoundError):
            receiver.receive_deferred_messages(later.sequence_number)
        with pytest.raises(MessageNotFoundError):
            receiver.receive_deferred_messages(following.sequence_number)
        receiver.complete_message(following)


@pytest.mark.rule("SCH-1", "SCH-2", "SCH-3", "PEK-2")
def test_a_scheduled_message_is_seen_by_peek_and_can_be_cancelled(
    client: ServiceBusClient, queue: str
) -> None:
    with client.get_queue_sender(queue) as sender, client.get_queue_receiver(queue) as receiver:
        number, other = sender.schedule_messages(
            [ServiceBusMessage("later"), ServiceBusMessage("too")], now() + HOUR
        )
        sender.send_messages(ServiceBusMessage("now"))
        assert bodies(collect(receiver, 1)) == ["now"]
        peeked = {
            message.sequence_number: message
            for message in receiver.peek_messages(10, sequence_number=1)
        }
        assert peeked[number].state.value == 2
        sender.cancel_scheduled_messages([number, other])
        with pytest.raises(MessageNotFoundError):
            sender.cancel_scheduled_messages(number)
        left = receiver.peek_messages(10, sequence_number=1)
        assert bodies(left) == ["now"]


@pytest.mark.rule("SCH-1", "SCH-4", "SEQ-8")
def test_a_message_scheduled_by_its_property_arrives_at_its_time(
    client: ServiceBusClient, queue: str
) -> None:
    with client.get_queue_sender(queue) as sender:
        due = now() + datetime.timedelta(seconds=3)  # more than the second send takes in a crowd
        sender.send_messages(ServiceBusMessage("later", scheduled_enqueue_time_utc=due))
        sender.send_messages(ServiceBusMessage("now"))
    with client.get_queue_receiver(queue, receive_mode=RECEIVE_AND_DELETE) as receiver:
        first, second = collect(receiver, 2)
    assert bodies([first, second]) == ["now", "later"]
    assert second.sequence_number > first.sequence_number
    assert second.enqueued_time_utc >= due - datetime.timedelta(milliseconds=1)


@pytest.mark.rule("SCH-6")
def test_a_time_in_the_past_means_now(client: ServiceBusClient, queue: str) -> None:
    with client.get_queue_sender(queue) as sender:
        sender.schedule_messages(ServiceBusMessage("overdue"), now() - HOUR)
    with client.get_queue_receiver(queue, receive_mode=RECEIVE_AND_DELETE) as receiver:
        assert bodies(collect(receiver, 1)) == ["overdue"]


@pytest.mark.rule("TTL-1", "TTL-4", "TTL-6")
def test_an_expired_message_is_not_delivered(client: ServiceBusClient, queues: Queues) -> None:
    queue = queues.fresh("mortal")
    with client.get_queue_sender(queue) as sender:
        short = datetime.timedelta(milliseconds=200)
        sender.send_messages(ServiceBusMessage("mortal", time_to_live=short))
        sender.send_messages(ServiceBusMessage("lasting"))
    dead_letters = client.get_queue_receiver(
        queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER, receive_mode=RECEIVE_AND_DELETE
    )
    with dead_letters:
        (dead,) = collect(dead_letters, 1)
    assert (str(dead), dead.dead_letter_reason) == ("mortal", "TTLExpiredException")
    with client.get_queue_receiver(queue, receive_mode=RECEIVE_AND_DELETE) as receiver:
        assert bodies(collect(receiver, 1)) == ["lasting"]


@pytest.mark.rule("SES-1")
@pytest.mark.parametrize("session", ["named", NEXT_AVAILABLE_SESSION], ids=["named", "next"])
def test_a_queue_without_sessions_has_no_session_receivers(
    client: ServiceBusClient, queue: str, session: object
) -> None:
    with (
        pytest.raises(ServiceBusError, match="does not require sessions"),
        client.get_queue_receiver(queue, session_id=session, max_wait_time=5),
    ):
        pass
