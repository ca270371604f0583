"""Topics with the stock Python client: copies, receive modes, and what queues do as well."""

import datetime

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusMessageState
from azure.servicebus.exceptions import ServiceBusError

from conformance.settlement.bus import RECEIVE_AND_DELETE
from conformance.topics.bus import TopicBus
from conformance.topics.conftest import Fresh
from support.receiving import bodies, collect

SUBSCRIPTIONS = ("first", "second")


@pytest.mark.rule("ENT-1", "ENT-3", "SEED-8", "SEED-10", "FLT-2")
def test_each_subscription_has_its_own_copy(bus: TopicBus, topic: str) -> None:
    bus.send(topic, *"abcd")
    for name in SUBSCRIPTIONS:
        messages = bus.take(topic, name, 4)
        assert sorted(bodies(messages)) == list("abcd")
        assert all(m.delivery_count == 0 for m in messages)


@pytest.mark.rule("SEED-93", "ENT-3")
def test_receive_and_delete_takes_one_copy_alone(bus: TopicBus, topic: str) -> None:
    bus.send(topic, *"abc")
    receiver = bus.subscriber(topic, "first", receive_mode=RECEIVE_AND_DELETE)
    assert sorted(bodies(collect(receiver, 3))) == list("abc")
    assert not receiver.peek_messages(1, sequence_number=1)
    assert bus.texts(topic, "second", 3) == list("abc")


@pytest.mark.rule("SEQ-11", "SEQ-4")
def test_copies_have_the_number_of_the_topic(bus: TopicBus, topic: str) -> None:
    bus.send(topic, *"abcd")
    numbers = []
    for name in SUBSCRIPTIONS:
        messages = bus.take(topic, name, 4)
        assert all(m.enqueued_sequence_number is None for m in messages)
        numbers.append({str(m): m.sequence_number for m in messages})
    assert numbers[0] == numbers[1]
    assert len(set(numbers[0].values())) == 4


@pytest.mark.rule("SEED-28", "SEQ-10", "SEED-76")
def test_messages_with_a_key_stay_in_order(bus: TopicBus, topic: str) -> None:
    sender = bus.topic_sender(topic)
    sender.send_messages([ServiceBusMessage(str(n), partition_key="k") for n in range(5)])
    sender.send_messages(ServiceBusMessage("5", partition_key="k"))
    for name in SUBSCRIPTIONS:
        messages = bus.take(topic, name, 6)
        assert bodies(messages) == [str(n) for n in range(6)]
        assert {m.partition_key for m in messages} == {"k"}
        assert len({m.sequence_number >> 48 for m in messages}) == 1


@pytest.mark.rule("ENT-3")
def test_a_settlement_is_of_one_subscription(bus: TopicBus, topic: str) -> None:
    bus.send(topic, ServiceBusMessage("m", application_properties={"a": 1}))
    receiver = bus.subscriber(topic, "first")
    (message,) = collect(receiver, 1)
    receiver.abandon_message(message)
    (message,) = collect(receiver, 1)
    assert message.delivery_count == 1
    receiver.renew_message_lock(message)
    receiver.dead_letter_message(message, reason="bad", error_description="very")
    receiver = bus.buried(topic, "first")
    (dead,) = collect(receiver, 1)
    assert (dead.dead_letter_reason, dead.dead_letter_error_description) == ("bad", "very")
    receiver.complete_message(dead)
    (other,) = bus.take(topic, "second", 1)
    assert other.delivery_count == 0
    assert other.application_properties == {b"a": 1}
    receiver = bus.buried(topic, "second")
    assert not receiver.peek_messages(1, sequence_number=1)


@pytest.mark.rule("DEF-1", "DEF-2", "PEK-2")
def test_deferral_and_peek_in_a_subscription(bus: TopicBus, topic: str) -> None:
    bus.send(topic, "m")
    receiver = bus.subscriber(topic, "first")
    (message,) = collect(receiver, 1)
    receiver.defer_message(message)
    (seen,) = receiver.peek_messages(5, sequence_number=1)
    assert seen.state is ServiceBusMessageState.DEFERRED
    (again,) = receiver.receive_deferred_messages(message.sequence_number)
    assert str(again) == "m"
    receiver.complete_message(again)
    assert receiver.peek_messages(5, sequence_number=1) == []
    receiver = bus.subscriber(topic, "second")
    (seen,) = receiver.peek_messages(5, sequence_number=1)
    assert (str(seen), seen.state) == ("m", ServiceBusMessageState.ACTIVE)


@pytest.mark.rule("ENT-1")
def test_topics_are_not_received_from_nor_subscriptions_sent_to(bus: TopicBus, topic: str) -> None:
    with pytest.raises(ServiceBusError, match="subscriptions"):
        bus.receiver(topic).receive_messages(1, max_wait_time=1)
    with pytest.raises(ServiceBusError, match="send to its topic"):
        bus.send(f"{topic}/Subscriptions/first", "m")


@pytest.mark.rule("ENT-8", "ENT-10")
def test_addresses_are_read_in_any_case(bus: TopicBus, topic: str) -> None:
    bus.send(topic.upper(), "m")
    receiver = bus.receiver(f"{topic}/subscriptions/FIRST")
    (message,) = collect(receiver, 1)
    receiver.dead_letter_message(message)
    receiver = bus.receiver(f"{topic.upper()}/SUBSCRIPTIONS/First/$deadletterqueue")
    assert bodies(collect(receiver, 1)) == ["m"]


@pytest.mark.rule("SCH-1", "SCH-3", "SCH-10", "SEED-76")
def test_scheduled_messages_wait_at_the_topic(bus: TopicBus, topic: str) -> None:
    moment = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=2)
    moment = moment.replace(microsecond=0)  # the wire has milliseconds
    sender = bus.topic_sender(topic)
    kept, cancelled = sender.schedule_messages(
        [ServiceBusMessage("kept"), ServiceBusMessage("cancelled")], moment
    )
    sender.cancel_scheduled_messages(cancelled)
    sender.send_messages(ServiceBusMessage("sent", scheduled_enqueue_time_utc=moment))
    receiver = bus.subscriber(topic, "first")
    assert receiver.peek_messages(5, sequence_number=1) == []
    for name in SUBSCRIPTIONS:
        messages = bus.take(topic, name, 2)
        assert sorted(bodies(messages)) == ["kept", "sent"]
        assert all(m.enqueued_time_utc >= moment for m in messages)
        assert kept not in [m.sequence_number for m in messages]


@pytest.mark.rule("TTL-3")
def test_the_topics_time_to_live_wins_when_it_is_smaller(bus: TopicBus, fresh: Fresh) -> None:
    topic = fresh("fleeting")
    bus.send(topic, "m", ServiceBusMessage("long", time_to_live=datetime.timedelta(hours=2)))
    for name in ("follows", "longer"):
        receiver = bus.buried(topic, name)
        messages = collect(receiver, 2)
        assert {m.dead_letter_reason for m in messages} == {"TTLExpiredException"}
        lives = [m.expires_at_utc - m.enqueued_time_utc for m in messages]
        assert lives == [datetime.timedelta(seconds=2)] * 2


@pytest.mark.rule("TTL-3")
def test_the_subscriptions_time_to_live_wins_when_it_is_smaller(
    bus: TopicBus, fresh: Fresh
) -> None:
    topic = fresh("patient")
    bus.send(topic, "m")
    receiver = bus.buried(topic, "shorter")
    assert bodies(collect(receiver, 1)) == ["m"]
    (message,) = bus.take(topic, "follows", 1)
    assert message.expires_at_utc - message.enqueued_time_utc == datetime.timedelta(hours=1)


@pytest.mark.rule("STS-1", "STS-2", "STS-3")
def test_disabled_topics_and_subscriptions(bus: TopicBus, fresh: Fresh) -> None:
    closed = fresh("closed")
    with pytest.raises(ServiceBusError, match="disabled"):
        bus.send(closed, "m")
    receiver = bus.subscriber(closed, "open")
    assert not receiver.peek_messages(1, sequence_number=1)
    topic = fresh("half-open")
    bus.send(topic, "m")
    with pytest.raises(ServiceBusError, match="disabled"):
        bus.subscriber(topic, "closed").receive_messages(1, max_wait_time=1)
    assert bus.texts(topic, "open", 1) == ["m"]
