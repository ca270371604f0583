"""Rules with the stock Python client: who gets what, and what actions make of it."""

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusError, ServiceBusQuotaExceededError

from conformance.partitioning.operator import Operator
from conformance.topics.bus import TopicBus
from conformance.topics.conftest import Fresh
from conformance.topics.namespace import Topics
from support.receiving import bodies, collect
from support.server import ServerProcess


def message(body: str, label: str | None = None, **properties: object) -> ServiceBusMessage:
    return ServiceBusMessage(body, subject=label, application_properties=dict(properties))


@pytest.mark.rule("FLT-1", "FLT-3", "FLT-6", "FLT-7")
def test_each_subscription_gets_what_its_rules_select(bus: TopicBus, fresh: Fresh) -> None:
    topic = fresh("ruled")
    sent = [
        message("red small", "red", size=1),
        message("blue small", "blue", size=2),
        message("red large", "red", size=11),
        message("blue large", "blue", size=12),
        message("plain"),
    ]
    bus.send(topic, *sent)
    assert bus.texts(topic, "all", 5) == sorted(str(m) for m in sent)
    assert bus.texts(topic, "red", 2) == ["red large", "red small"]
    assert bus.texts(topic, "large", 2) == ["blue large", "red large"]
    # Several rules without an action give one copy at most.
    assert bus.texts(topic, "red-or-large", 3) == ["blue large", "red large", "red small"]
    assert bus.texts(topic, "none", 0) == []


@pytest.mark.rule("FLT-4", "ACT-4", "SEQ-11")
def test_each_matching_rule_with_an_action_gives_a_copy(bus: TopicBus, fresh: Fresh) -> None:
    topic = fresh("acting")
    bus.send(topic, message("m", "red", size=20, secret="s"))
    copies = bus.take(topic, "changed", 3)
    assert bodies(copies) == ["m"] * 3
    found = {(m.application_properties or {}).get(b"RuleName", b"").decode(): m for m in copies}
    assert found.keys() == {"", "mark", "rename"}
    assert found[""].application_properties == {b"size": 20, b"secret": b"s"}
    assert found["mark"].application_properties == {
        b"size": 20,
        b"mark": b"seen",
        b"RuleName": b"mark",
    }
    assert found["rename"].application_properties == {
        b"size": 40,
        b"secret": b"s",
        b"RuleName": b"rename",
    }
    assert (found["rename"].subject, found["rename"].to) == ("big", "x")
    assert {m.message_id for m in copies} == {copies[0].message_id}
    # The copies have numbers of their own and remember the original's.
    numbers = sorted(m.sequence_number for m in copies)
    assert len(set(numbers)) == 3
    for copy in copies:
        has_another = copy.sequence_number != numbers[0]
        assert copy.enqueued_sequence_number == (numbers[0] if has_another else None)
    (original,) = bus.take(topic, "all", 1)
    assert original.sequence_number == numbers[0]
    assert original.application_properties == {b"size": 20, b"secret": b"s"}
    assert original.subject == "red"


@pytest.mark.rule("ACT-5")
def test_a_schedule_time_of_a_copy_is_not_acted_upon(bus: TopicBus, fresh: Fresh) -> None:
    topic = fresh("acting")
    bus.send(topic, "m")
    (copy,) = bus.take(topic, "later", 1)
    assert copy.scheduled_enqueue_time_utc is not None
    assert copy.application_properties == {b"RuleName": b"later"}


@pytest.mark.rule("FLT-9", "DLQ-6", "DLQ-9")
def test_what_cannot_be_evaluated_is_dead_lettered_or_passed_over(
    bus: TopicBus, fresh: Fresh, server: ServerProcess
) -> None:
    topic = fresh("failing")
    bus.send(topic, message("text", name="x"), message("number", name=2), message("absent"))
    assert bus.texts(topic, "mourns", 1) == ["number"]
    assert bus.texts(topic, "shrugs", 1) == ["number"]
    assert bus.texts(topic, "all", 3) == ["absent", "number", "text"]
    (dead,) = collect(bus.buried(topic, "mourns"), 1)
    assert str(dead) == "text"
    assert dead.dead_letter_reason == "FilterException"
    assert "'odd'" in (dead.dead_letter_error_description or "")
    assert not bus.buried(topic, "shrugs").peek_messages(1, sequence_number=1)
    assert shown(server, topic)["filter_errors"] >= 1
    assert shown(server, topic)["dead_letter"] == 0
    assert shown(server, f"{topic}/Subscriptions/mourns")["dead_letter"] == 1


def shown(server: ServerProcess, entity: str) -> dict[str, int]:
    """The totals that an operator sees."""
    totals: dict[str, int] = Operator(server).entity(entity)["totals"]
    return totals


@pytest.mark.rule("ENT-4")
def test_a_message_that_matches_nobody_is_dropped(bus: TopicBus, fresh: Fresh) -> None:
    topic = fresh("ruled")
    bus.send(topic, "m")
    assert bus.texts(topic, "red", 0) == []


@pytest.mark.rule("ENT-4", "ERR-15")
def test_a_strict_topic_refuses_what_matches_nobody(bus: TopicBus, fresh: Fresh) -> None:
    topic = fresh("strict")
    with pytest.raises(ServiceBusError, match="No subscription"):
        bus.send(topic, message("blue", "blue"))
    with pytest.raises(ServiceBusError, match="No subscription"):
        bus.topic_sender(topic).send_messages([message("red", "red"), message("blue", "blue")])
    bus.send(topic, message("red", "red"), message("red too", "red"))
    assert bus.texts(topic, "red", 2) == ["red", "red too"]


@pytest.mark.rule("DUP-7", "DUP-1")
def test_duplicates_are_dropped_at_the_topic_alone(bus: TopicBus, fresh: Fresh) -> None:
    topic = fresh("unique")
    ids = ["1", "2", "1", "3", "2"]
    bus.send(topic, *[ServiceBusMessage(number, message_id=number) for number in ids])
    assert bus.texts(topic, "all", 3) == ["1", "2", "3"]
    changed = bus.take(topic, "same-id", 3)
    assert [m.message_id for m in changed] == ["same"] * 3


@pytest.mark.rule("ENT-5")
def test_copies_count_against_the_topics_size(bus: TopicBus, topics: Topics) -> None:
    topic = topics.fresh("tiny", "whole")
    bus.send(topic, *["x" * 200_000] * 2)
    with pytest.raises(ServiceBusQuotaExceededError, match="maximum entity size"):
        bus.send(topic, "x" * 200_000)
    bus.take(topic, "first", 2)
    bus.send(topic, "x" * 200_000)
