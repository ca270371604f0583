"""Sessions in subscriptions, with the stock Python client."""

import pytest
from azure.servicebus import ServiceBusMessage

from conformance.topics.bus import TopicBus
from conformance.topics.conftest import Fresh
from support.receiving import bodies, collect


def send(bus: TopicBus, topic: str, *messages: tuple[str, str]) -> None:
    bus.send(topic, *[ServiceBusMessage(body, session_id=name) for name, body in messages])


@pytest.mark.rule("SES-19", "SEED-76")
def test_sessions_are_those_of_a_subscription(bus: TopicBus, fresh: Fresh) -> None:
    topic = fresh("sessions")
    send(bus, topic, ("a", "1"), ("b", "x"), ("a", "2"))
    one = bus.accept(topic, "one", "a")
    two = bus.accept(topic, "two", "a")
    one.session.set_state(b"state of one")
    one.session.renew_lock()
    assert two.session.get_state() is None
    assert one.session.get_state() == b"state of one"
    for receiver in (one, two):
        assert bodies(collect(receiver, 2)) == ["1", "2"]
    other = bus.accept(topic, "two")
    assert other.session.session_id == "b"
    assert bodies(collect(other, 1)) == ["x"]
    assert bus.texts(topic, "plain", 3) == ["1", "2", "x"]


@pytest.mark.rule("SES-1", "DLQ-6", "DLQ-10")
def test_a_message_without_a_session_is_a_dead_letter(bus: TopicBus, fresh: Fresh) -> None:
    topic = fresh("sessions")
    bus.send(topic, "none", ServiceBusMessage("some", session_id="s"))
    (dead,) = collect(bus.buried(topic, "one"), 1)
    assert (str(dead), dead.dead_letter_reason) == ("none", "Session ID is null")
    assert bodies(collect(bus.accept(topic, "one", "s"), 1)) == ["some"]
    assert bus.texts(topic, "plain", 2) == ["none", "some"]


@pytest.mark.rule("SES-23", "ACT-4")
def test_a_copy_is_in_the_session_that_an_action_names(bus: TopicBus, fresh: Fresh) -> None:
    topic = fresh("regrouped")
    sent = [
        ServiceBusMessage(str(n), session_id="s", application_properties={"colour": colour})
        for n, colour in enumerate(("red", "blue", "red"))
    ]
    bus.send(topic, *sent)
    found = {}
    for _ in range(2):
        receiver = bus.accept(topic, "by-colour")
        name = receiver.session.session_id
        found[name] = bodies(collect(receiver, 2 if name == "red" else 1))
    assert found == {"red": ["0", "2"], "blue": ["1"]}


@pytest.mark.rule("SES-3", "SES-4")
def test_the_session_without_a_name_is_one_of_a_subscription(bus: TopicBus, fresh: Fresh) -> None:
    topic = fresh("sessions")
    send(bus, topic, ("", "1"), ("", "2"))
    by_name, next_one = bus.accept(topic, "one", ""), bus.accept(topic, "two")
    assert [by_name.session.session_id, next_one.session.session_id] == ["", ""]
    for receiver in (by_name, next_one):
        assert bodies(collect(receiver, 2)) == ["1", "2"]
