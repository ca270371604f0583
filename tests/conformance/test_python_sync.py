"""The stock Python client, synchronous: sending, both receive modes, settlement, dead letters."""

import datetime
import uuid

import pytest
from azure.servicebus import (
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceivedMessage,
    ServiceBusReceiveMode,
    ServiceBusSubQueue,
)
from azure.servicebus.exceptions import (
    MessageAlreadySettled,
    MessageLockLostError,
    MessageSizeExceededError,
    MessagingEntityNotFoundError,
    ServiceBusError,
)

from support.namespace import Queues
from support.receiving import bodies, collect

RECEIVE_AND_DELETE = ServiceBusReceiveMode.RECEIVE_AND_DELETE
DEAD_LETTER = ServiceBusSubQueue.DEAD_LETTER
MESSAGE_BYTES_MAX = 1024 * 1024  # the default of the profile that the server runs under


def send(client: ServiceBusClient, queue: str, *texts: str) -> None:
    with client.get_queue_sender(queue) as sender:
        for text in texts:
            sender.send_messages(ServiceBusMessage(text))


def take(client: ServiceBusClient, queue: str, count: int) -> list[ServiceBusReceivedMessage]:
    with client.get_queue_receiver(queue, receive_mode=RECEIVE_AND_DELETE) as receiver:
        return collect(receiver, count)


def take_dead(client: ServiceBusClient, queue: str, count: int) -> list[ServiceBusReceivedMessage]:
    with client.get_queue_receiver(
        queue, sub_queue=DEAD_LETTER, receive_mode=RECEIVE_AND_DELETE
    ) as receiver:
        return collect(receiver, count)


@pytest.mark.rule("SEED-79", "SEED-82", "SEED-84", "SEED-92", "SEED-99")
def test_a_message_sent_is_received_and_completed_away(
    client: ServiceBusClient, queue: str
) -> None:
    send(client, queue, "first")
    with client.get_queue_receiver(queue) as receiver:
        (message,) = collect(receiver, 1)
        assert str(message) == "first"
        receiver.complete_message(message)
    send(client, queue, "marker")
    assert bodies(take(client, queue, 1)) == ["marker"]


@pytest.mark.rule("SEQ-1", "SEQ-2", "SEQ-3", "SEQ-6", "ENT-2")
def test_sequence_numbers_grow_by_one_in_order_of_arrival(
    client: ServiceBusClient, queue: str
) -> None:
    with client.get_queue_sender(queue) as sender:
        sender.send_messages(ServiceBusMessage("0"))
        sender.send_messages([ServiceBusMessage(str(number)) for number in range(1, 6)])
        sender.send_messages(ServiceBusMessage("6"))
    messages = take(client, queue, 7)
    assert bodies(messages) == [str(number) for number in range(7)]
    first = messages[0].sequence_number
    assert [m.sequence_number for m in messages] == list(range(first, first + 7))


@pytest.mark.rule("SEQ-7")
def test_the_enqueued_time_is_the_time_of_arrival(client: ServiceBusClient, queue: str) -> None:
    second = datetime.timedelta(seconds=1)
    before = datetime.datetime.now(datetime.UTC) - second
    send(client, queue, "stamped")
    after = datetime.datetime.now(datetime.UTC) + second
    (message,) = take(client, queue, 1)
    assert before <= message.enqueued_time_utc <= after


def test_a_batch_object_is_sent_whole(client: ServiceBusClient, queue: str) -> None:
    with client.get_queue_sender(queue) as sender:
        batch = sender.create_message_batch()
        for number in range(50):
            batch.add_message(ServiceBusMessage(f"item {number}", message_id=f"id-{number}"))
        sender.send_messages(batch)
    messages = take(client, queue, 50)
    assert bodies(messages) == [f"item {number}" for number in range(50)]
    assert [m.message_id for m in messages] == [f"id-{number}" for number in range(50)]


@pytest.mark.parametrize("size", [150_000, 1_000_000])
def test_a_large_message_travels_over_several_frames(
    client: ServiceBusClient, queue: str, size: int
) -> None:
    body = bytes(range(256)) * (size // 256)
    with client.get_queue_sender(queue) as sender:
        sender.send_messages(ServiceBusMessage(body))
    (message,) = take(client, queue, 1)
    assert b"".join(message.body) == body


@pytest.mark.rule("SEED-83", "MSG-3", "ERR-8", "ERR-22")
def test_a_message_that_is_too_large_is_refused_and_the_queue_goes_on(
    client: ServiceBusClient, queue: str
) -> None:
    with client.get_queue_sender(queue) as sender:
        with pytest.raises(MessageSizeExceededError) as refusal:
            sender.send_messages(ServiceBusMessage(b"x" * (MESSAGE_BYTES_MAX + 1)))
        assert "TrackingId:" in str(refusal.value)
    send(client, queue, "small")
    assert bodies(take(client, queue, 1)) == ["small"]


@pytest.mark.rule("MSG-1", "MSG-2")
def test_broker_properties_come_back_as_they_were_sent(
    client: ServiceBusClient, queue: str
) -> None:
    sent = ServiceBusMessage(
        "body",
        message_id="the-id",
        correlation_id="the-correlation",
        subject="the-subject",
        content_type="text/plain",
        to="the-destination",
        reply_to="the-reply-queue",
        session_id="the-session",
        reply_to_session_id="the-reply-session",
        partition_key="the-session",
    )
    with client.get_queue_sender(queue) as sender:
        sender.send_messages(sent)
    (message,) = take(client, queue, 1)
    for name in (
        "message_id",
        "correlation_id",
        "subject",
        "content_type",
        "to",
        "reply_to",
        "session_id",
        "reply_to_session_id",
        "partition_key",
    ):
        assert getattr(message, name) == getattr(sent, name), name


@pytest.mark.rule("MSG-5")
def test_application_properties_keep_their_types(client: ServiceBusClient, queue: str) -> None:
    moment = datetime.datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=datetime.UTC)
    sent = {
        "text": "grüße",
        "integer": -7,
        "large": 2_000_000_000,
        "float": 1.5,
        "true": True,
        "false": False,
        "uuid": uuid.UUID("065e3137-e376-41a9-9b59-11f98bb70993"),
        "moment": moment,
        "nothing": None,
    }
    with client.get_queue_sender(queue) as sender:
        sender.send_messages(ServiceBusMessage("body", application_properties=sent))
    (message,) = take(client, queue, 1)
    received = {key.decode(): value for key, value in message.application_properties.items()}
    assert {k: v for k, v in received.items() if k not in ("text", "moment")} == {
        k: v for k, v in sent.items() if k not in ("text", "moment")
    }
    assert received["text"].decode() == sent["text"]
    assert received["moment"] == moment.timestamp() * 1000


@pytest.mark.rule("SEED-93")
def test_receive_and_delete_consumes_at_once(client: ServiceBusClient, queue: str) -> None:
    send(client, queue, "one", "two")
    assert bodies(take(client, queue, 1)) == ["one"]
    assert bodies(take(client, queue, 1)) == ["two"]


@pytest.mark.rule("SEED-94", "SEED-96", "LCK-1")
def test_a_locked_message_is_invisible_and_others_get_the_next(
    client: ServiceBusClient, queue: str
) -> None:
    send(client, queue, "one", "two")
    with client.get_queue_receiver(queue) as first, client.get_queue_receiver(queue) as second:
        (held,) = collect(first, 1)
        (other,) = collect(second, 1)
        assert (str(held), str(other)) == ("one", "two")
        assert held.lock_token != other.lock_token
        assert held.locked_until_utc > datetime.datetime.now(datetime.UTC)
        first.complete_message(held)
        second.complete_message(other)


@pytest.mark.rule("ENT-2", "SEED-94")
def test_competing_receivers_never_get_the_same_message(
    client: ServiceBusClient, queue: str
) -> None:
    with client.get_queue_sender(queue) as sender:
        sender.send_messages([ServiceBusMessage(str(number)) for number in range(100)])
    seen: list[int] = []
    with client.get_queue_receiver(queue) as first, client.get_queue_receiver(queue) as second:
        while len(seen) < 100:
            for receiver in (first, second):
                for message in receiver.receive_messages(max_message_count=7, max_wait_time=1):
                    seen.append(message.sequence_number)
                    receiver.complete_message(message)
    assert len(seen) == len(set(seen)) == 100


@pytest.mark.rule("SEED-97", "SEED-100", "DLV-1", "SEQ-8", "CON-15")
def test_abandon_returns_the_message_to_the_front_and_counts(
    client: ServiceBusClient, queue: str
) -> None:
    send(client, queue, "one", "two")
    with client.get_queue_receiver(queue) as receiver:
        (first,) = collect(receiver, 1)
        assert first.delivery_count == 0
        receiver.abandon_message(first)
        (again,) = collect(receiver, 1)
        assert str(again) == "one"
        assert again.delivery_count == 1
        assert again.sequence_number == first.sequence_number
        assert again.message_id == first.message_id
        assert again.lock_token != first.lock_token
        receiver.complete_message(again)


@pytest.mark.rule("SEED-97", "SEED-100", "DLV-1", "LCK-7", "SEQ-8")
def test_a_lock_that_lapses_makes_the_message_available_again(
    client: ServiceBusClient, queues: Queues
) -> None:
    queue = queues.fresh("brief")
    send(client, queue, "one")
    with client.get_queue_receiver(queue) as receiver:
        (first,) = collect(receiver, 1)
    with client.get_queue_receiver(queue) as receiver:
        (again,) = collect(receiver, 1)
        assert again.delivery_count == first.delivery_count + 1
        assert again.sequence_number == first.sequence_number
        receiver.complete_message(again)


@pytest.mark.rule("SEED-108")
def test_settling_after_the_lock_lapsed_is_an_error(
    client: ServiceBusClient, queues: Queues
) -> None:
    queue = queues.fresh("brief")
    send(client, queue, "one")
    with client.get_queue_receiver(queue) as receiver, client.get_queue_receiver(queue) as other:
        (lost,) = collect(receiver, 1)
        (again,) = collect(other, 1)
        with pytest.raises(MessageLockLostError):
            receiver.complete_message(lost)
        other.complete_message(again)


@pytest.mark.rule("LCK-9")
def test_settling_twice_is_an_error(client: ServiceBusClient, queue: str) -> None:
    send(client, queue, "one")
    with client.get_queue_receiver(queue) as receiver:
        (message,) = collect(receiver, 1)
        receiver.complete_message(message)
        with pytest.raises(MessageAlreadySettled):
            receiver.complete_message(message)


@pytest.mark.rule("SEED-98", "DLV-2", "DLQ-1", "DLQ-5", "DLQ-6")
def test_too_many_deliveries_move_the_message_to_the_dead_letter_queue(
    client: ServiceBusClient, queues: Queues
) -> None:
    queue = queues.fresh("fragile")
    send(client, queue, "poison", "marker")
    with client.get_queue_receiver(queue) as receiver:
        for count in range(2):
            (message,) = collect(receiver, 1)
            assert (str(message), message.delivery_count) == ("poison", count)
            receiver.abandon_message(message)
        (marker,) = collect(receiver, 1)
        assert str(marker) == "marker"
        receiver.complete_message(marker)
    (dead,) = take_dead(client, queue, 1)
    assert str(dead) == "poison"
    assert dead.dead_letter_reason == "MaxDeliveryCountExceeded"
    assert dead.dead_letter_error_description


@pytest.mark.rule("SEED-98", "PRE-2")
def test_lapsed_locks_count_toward_dead_lettering(client: ServiceBusClient, queues: Queues) -> None:
    queue = queues.fresh("ephemeral")
    send(client, queue, "poison")
    with client.get_queue_receiver(queue) as receiver:
        collect(receiver, 1)
        (dead,) = take_dead(client, queue, 1)
    assert dead.dead_letter_reason == "MaxDeliveryCountExceeded"


@pytest.mark.rule("SEED-101", "DLQ-5", "DLQ-6")
def test_dead_lettering_keeps_reason_description_and_properties(
    client: ServiceBusClient, queue: str
) -> None:
    with client.get_queue_sender(queue) as sender:
        sender.send_messages(ServiceBusMessage("bad", application_properties={"tenant": "a"}))
    with client.get_queue_receiver(queue) as receiver:
        (message,) = collect(receiver, 1)
        receiver.dead_letter_message(message, reason="Unreadable", error_description="not JSON")
    (dead,) = take_dead(client, queue, 1)
    assert (str(dead), dead.message_id) == ("bad", message.message_id)
    assert (dead.dead_letter_reason, dead.dead_letter_error_description) == (
        "Unreadable",
        "not JSON",
    )
    assert dead.application_properties[b"tenant"] == b"a"


@pytest.mark.rule("DLQ-3", "DLV-4")
def test_a_dead_letter_queue_is_received_in_peek_lock_and_never_gives_up(
    client: ServiceBusClient, queues: Queues
) -> None:
    queue = queues.fresh("fragile")
    send(client, queue, "bad")
    with client.get_queue_receiver(queue) as receiver:
        receiver.dead_letter_message(*collect(receiver, 1), reason="test")
    with client.get_queue_receiver(queue, sub_queue=DEAD_LETTER) as receiver:
        for _ in range(5):
            receiver.abandon_message(*collect(receiver, 1))
        (message,) = collect(receiver, 1)
        assert message.dead_letter_reason == "test"
        receiver.complete_message(message)


@pytest.mark.rule("DLQ-2")
def test_sending_to_a_dead_letter_queue_is_refused(client: ServiceBusClient, queue: str) -> None:
    with pytest.raises(ServiceBusError):  # noqa: SIM117
        with client.get_queue_sender(f"{queue}/$DeadLetterQueue") as sender:
            sender.send_messages(ServiceBusMessage("uninvited"))


@pytest.mark.rule("ERR-1", "SEED-83", "SEED-84")
def test_a_missing_queue_is_told_to_senders_and_receivers(client: ServiceBusClient) -> None:
    with pytest.raises(MessagingEntityNotFoundError) as refusal:
        send(client, "no-such-queue", "lost")
    assert "TrackingId:" in str(refusal.value)
    with pytest.raises(MessagingEntityNotFoundError):  # noqa: SIM117
        with client.get_queue_receiver("no-such-queue") as receiver:
            receiver.receive_messages(max_wait_time=1)


@pytest.mark.rule("ENT-8")
def test_queue_names_compare_without_case(client: ServiceBusClient, queue: str) -> None:
    send(client, queue.upper(), "one")
    assert bodies(take(client, queue.title(), 1)) == ["one"]


@pytest.mark.rule("DLV-5", "CON-27", "PRE-1")
def test_prefetched_messages_given_back_at_close_do_not_count(
    client: ServiceBusClient, queue: str
) -> None:
    send(client, queue, *(str(number) for number in range(10)))
    with client.get_queue_receiver(queue, prefetch_count=10) as receiver:
        (first,) = collect(receiver, 1)
        receiver.complete_message(first)
    messages = take(client, queue, 9)
    assert bodies(messages) == [str(number) for number in range(1, 10)]
    assert {message.delivery_count for message in messages} == {0}


def test_iterating_over_a_receiver(client: ServiceBusClient, queue: str) -> None:
    send(client, queue, *(str(number) for number in range(5)))
    seen = []
    with client.get_queue_receiver(queue) as receiver:
        for message in receiver:
            seen.append(str(message))
            receiver.complete_message(message)
            if len(seen) == 5:
                break
    assert seen == ["0", "1", "2", "3", "4"]
