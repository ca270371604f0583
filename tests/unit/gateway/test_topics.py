"""Topics on an in-memory bus: addresses, what is refused, and rules through the management node."""

import asyncio
from dataclasses import replace

import pytest

from partibus.amqp.codec.types import Described, Int, Symbol, Timestamp, UByte
from partibus.amqp.events import DetachReceived
from partibus.control.access.policies import AccessPolicy
from partibus.domain.entity import (
    CorrelationFilter,
    FilterType,
    RuleSpec,
    SubscriptionSpec,
    TopicSpec,
)
from partibus.domain.errors import BusError
from partibus.domain.property_value import PropertyValue, TimeValue
from partibus.domain.rights import Rights
from partibus.gateway.operations.rules import (
    CORRELATION_FILTER,
    EMPTY_ACTION,
    FALSE_FILTER,
    RULE_DESCRIPTION,
    SQL_ACTION,
    SQL_FILTER,
    TRUE_FILTER,
)
from partibus.testing.bus import BusBench, ClientBench
from support.gateway.messages import plain
from support.gateway.session_clients import (
    Management,
    bodies,
    detach_condition,
    outcomes,
    receive,
    send,
)

A = "news/Subscriptions/a"
B = "news/Subscriptions/b"
TYPED: dict[str, PropertyValue] = {
    "whole": 1,
    "real": 1.0,
    "flag": True,
    "text": "1",
    "moment": TimeValue("dateTime", "1970-01-01T00:00:01.500000Z"),
    "span": TimeValue("duration", "-PT0.000002S"),
}
ON_WIRE = {
    "whole": 1,
    "real": 1.0,
    "flag": True,
    "text": "1",
    "moment": Timestamp(1500),
    "span": Described(Symbol("com.microsoft:timespan"), -20),
}
NEVER = SubscriptionSpec(rules=(RuleSpec(filter_type=FilterType.FALSE),))


@pytest.fixture
def bus() -> BusBench:
    bus = BusBench(stores=2)
    bus.topic("news", TopicSpec())
    bus.subscription("news", "a")
    bus.subscription("news", "b", SubscriptionSpec(requires_session=True))
    return bus


@pytest.fixture
def client(bus: BusBench) -> ClientBench:
    return bus.client()


class Rules(Management):
    """Requests whose answers come from the event loop."""

    async def ask_later(self, name: str, **fields: object) -> tuple[int, object, str | None]:
        self.begin(name, **fields)
        await settled()
        return self.answer()


async def settled() -> None:
    """Let the changes of rules that were asked for be made."""
    for _ in range(20):
        await asyncio.sleep(0)


def rules_of(bus: BusBench, path: str = A) -> list[str]:
    spec = bus.catalog.entity(path).spec
    assert isinstance(spec, SubscriptionSpec)
    return [rule.name for rule in spec.rules]


# --- links --------------------------------------------------------------------------------------


@pytest.mark.rule("ENT-1")
def test_a_topic_is_sent_to_and_its_subscriptions_received_from(client: ClientBench) -> None:
    sender = client.attach("news", sends=True)
    client.send(sender, [plain(1), plain(2)])
    receiver = client.attach("NEWS/subscriptions/A", sends=False)
    assert bodies(receive(client, receiver, 10)) == [1, 2]
    send(client, "news", (3, "s"))
    assert bodies(receive(client, receiver, 10)) == [3]


@pytest.mark.rule("ENT-1")
@pytest.mark.parametrize(
    ("address", "sends"),
    [("news", False), ("news/$DeadLetterQueue", False), (A, True), (f"{A}/$DeadLetterQueue", True)],
)
def test_the_other_ways_round_are_refused(client: ClientBench, address: str, sends: bool) -> None:
    client.attach(address, sends=sends)
    assert detach_condition(client) == "amqp:not-allowed"


def test_a_missing_subscription_is_not_found(client: ClientBench) -> None:
    client.attach("news/Subscriptions/none", sends=False)
    assert detach_condition(client) == "amqp:not-found"


@pytest.mark.rule("SES-1", "SES-19")
def test_a_session_subscription_is_received_in_sessions_alone(client: ClientBench) -> None:
    client.attach(B, sends=False)
    assert detach_condition(client) == "amqp:not-allowed"


@pytest.mark.rule("ENT-4")
def test_each_send_to_a_strict_topic_is_answered_for_itself(bus: BusBench) -> None:
    bus.topic("strict", TopicSpec(enable_filtering_messages_before_publishing=True))
    wants = CorrelationFilter(message_id="m-1")
    rule = RuleSpec(filter_type=FilterType.CORRELATION, sql_expression="", correlation=wants)
    bus.subscription("strict", "s", SubscriptionSpec(rules=(rule,)))
    client = bus.client()
    sender = client.attach("strict", sends=True)
    client.send(sender, [plain(1), plain(2), plain(1)])
    found = [type(state).__name__ for state in outcomes(client)]
    assert sorted(found) == ["Accepted", "Accepted", "Rejected"]


def test_operations_of_receivers_are_none_of_a_topic(client: ClientBench) -> None:
    management = Management(client, "news")
    status, _, condition = management.ask("enumerate-rules", top=Int(10), skip=Int(0))
    assert (status, condition) == (400, "amqp:not-allowed")
    assert management.ask("peek-message", message_count=Int(1))[0] == 204


# --- rules --------------------------------------------------------------------------------------


@pytest.mark.rule("FLT-10")
async def test_a_rule_is_there_for_the_next_message(bus: BusBench, client: ClientBench) -> None:
    rules = Rules(client, A)
    assert (await rules.ask_later("remove-rule", rule_name="$Default"))[0] == 200
    description = {"correlation-filter": {"message-id": "m-1", "properties": None, "to": None}}
    answer = await rules.ask_later("add-rule", rule_name="one", rule_description=description)
    assert answer == (200, {}, None)
    sender = client.attach("news", sends=True)
    client.send(sender, [plain(1), plain(2)])
    receiver = client.attach(A, sends=False)
    assert bodies(receive(client, receiver, 10)) == [1]
    assert rules_of(bus) == ["one"]


@pytest.mark.rule("FLT-11")
async def test_names_of_rules_are_unique(bus: BusBench, client: ClientBench) -> None:
    rules = Rules(client, A)
    twin = {"sql-filter": {"expression": "1=1"}}
    status, _, condition = await rules.ask_later(
        "add-rule", rule_name="$DEFAULT", rule_description=twin
    )
    assert (status, condition) == (409, "com.microsoft:entity-already-exists")
    status, _, condition = await rules.ask_later("remove-rule", rule_name="none")
    assert (status, condition) == (404, "amqp:not-found")
    assert rules_of(bus) == ["$Default"]


@pytest.mark.rule("FLT-8")
@pytest.mark.parametrize(
    "description",
    [
        None,
        {},
        {"sql-filter": {}},
        {"sql-filter": {"expression": 5}},
        {"sql-filter": {"expression": "a = = b"}},
        {"sql-filter": {"expression": "1=1"}, "sql-rule-action": {"expression": "SAT a = 1"}},
        {"correlation-filter": {}},
        {"correlation-filter": {"properties": {"p": b"\xff"}}},
    ],
)
async def test_rules_that_cannot_be_are_refused(
    bus: BusBench, client: ClientBench, description: object
) -> None:
    rules = Rules(client, A)
    status, _, condition = await rules.ask_later(
        "add-rule", rule_name="bad", rule_description=description
    )
    assert (status, condition) == (400, "com.microsoft:argument-error")
    assert rules_of(bus) == ["$Default"]


async def test_a_request_without_a_name_is_refused(client: ClientBench) -> None:
    rules = Rules(client, A)
    assert (await rules.ask_later("remove-rule"))[0] == 400


async def test_of_changes_asked_for_together_none_is_lost(
    bus: BusBench, client: ClientBench
) -> None:
    rules = Rules(client, A)
    for number in range(10):
        filter_ = {"sql-filter": {"expression": f"n = {number}"}}
        rules.begin("add-rule", rule_name=f"r{number}", rule_description=filter_)
    await settled()
    assert [rules.answer()[0] for _ in range(10)] == [200] * 10
    assert rules_of(bus) == ["$Default", *[f"r{number}" for number in range(10)]]


async def test_a_subscription_that_is_gone_meanwhile(bus: BusBench, client: ClientBench) -> None:
    rules = Rules(client, A)
    rules.begin("remove-rule", rule_name="$Default")
    bus.catalog.delete(A)
    await settled()
    client.run()
    detached = client.take(DetachReceived)
    errors = [event.error for event in detached if isinstance(event, DetachReceived)]
    assert {error.condition for error in errors if error is not None} == {"amqp:not-found"}


async def test_a_failure_that_nobody_foresaw_is_answered(
    bus: BusBench, client: ClientBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no")

    monkeypatch.setattr(bus.catalog, "update", fail)
    rules = Rules(client, A)
    status, _, condition = await rules.ask_later("remove-rule", rule_name="$Default")
    assert (status, condition) == (500, BusError.condition)
    monkeypatch.undo()
    assert (await rules.ask_later("remove-rule", rule_name="$Default"))[0] == 200


async def test_what_waits_when_the_gateway_closes_is_not_begun(
    bus: BusBench, client: ClientBench
) -> None:
    Rules(client, A).begin("remove-rule", rule_name="$Default")
    bus.gateway.close()
    await settled()
    assert rules_of(bus) == ["$Default"]


@pytest.mark.rule("FLT-12")
def test_rules_are_listed_page_by_page(bus: BusBench, client: ClientBench) -> None:
    correlation = CorrelationFilter(label="l", session_id="s", properties=dict(TYPED))
    given = (
        RuleSpec(name="true"),
        RuleSpec(name="false", filter_type=FilterType.FALSE),
        RuleSpec(
            name="sql", filter_type=FilterType.SQL, sql_expression="a = 1", action="SET b = 1"
        ),
        RuleSpec(
            name="correlation",
            filter_type=FilterType.CORRELATION,
            sql_expression="",
            correlation=correlation,
        ),
    )
    spec = bus.catalog.entity(A).spec
    assert isinstance(spec, SubscriptionSpec)
    bus.catalog.update(A, replace(spec, rules=given))
    management = Management(client, A)
    found = []
    for skip in (0, 3):
        status, body, _ = management.ask("enumerate-rules", top=Int(3), skip=Int(skip))
        assert status == 200
        listed = body["rules"]
        assert isinstance(listed, list)
        found += [item["rule-description"] for item in listed]
    assert management.ask("enumerate-rules", top=Int(3), skip=Int(4))[0] == 204
    assert {rule.descriptor for rule in found} == {RULE_DESCRIPTION}
    filters, actions, names = zip(*[rule.value[:3] for rule in found], strict=True)
    assert names == ("correlation", "false", "sql", "true")
    assert [f.descriptor for f in filters] == [
        CORRELATION_FILTER,
        FALSE_FILTER,
        SQL_FILTER,
        TRUE_FILTER,
    ]
    assert filters[2].value[0] == "a = 1"
    assert filters[0].value == [None, None, None, None, "l", "s", None, None, ON_WIRE]
    assert [type(value) for value in filters[0].value[-1].values()] == [
        type(value) for value in ON_WIRE.values()
    ]
    assert [a.descriptor for a in actions] == [EMPTY_ACTION, EMPTY_ACTION, SQL_ACTION, EMPTY_ACTION]
    assert isinstance(actions[2], Described)
    assert actions[2].value[0] == "SET b = 1"


async def test_conditions_keep_their_types(bus: BusBench, client: ClientBench) -> None:
    conditions = {"correlation-filter": {"properties": ON_WIRE | {"i": Int(2), "u": UByte(3)}}}
    rules = Rules(client, A)
    answer = await rules.ask_later("add-rule", rule_name="typed", rule_description=conditions)
    assert answer[0] == 200
    spec = bus.catalog.entity(A).spec
    assert isinstance(spec, SubscriptionSpec)
    (made,) = [rule for rule in spec.rules if rule.name == "typed"]
    assert made.correlation is not None
    assert made.correlation.properties == TYPED | {"i": 2, "u": 3}
    listed = {"correlation-filter": {"properties": {"p": [1]}}}
    refused = await rules.ask_later("add-rule", rule_name="listed", rule_description=listed)
    assert refused[0] == 400


async def test_rules_need_the_right_to_listen(bus: BusBench) -> None:
    for name, rights in (("ListenOnly", Rights.LISTEN), ("SendOnly", Rights.SEND)):
        bus.catalog.put_policy("", AccessPolicy(name, "key", "key2", rights))
    filter_ = {"sql-filter": {"expression": "1=1"}}
    for name, status in (("ListenOnly", 200), ("SendOnly", 401)):
        rules = Rules(bus.client(policy=name, key="key"), A)
        answer = await rules.ask_later("add-rule", rule_name=name, rule_description=filter_)
        assert answer[0] == status
