"""Rules, by the stock Python administration client: every filter, action and typed value."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any, Final

import pytest
from azure.core.exceptions import ResourceExistsError, ResourceNotFoundError
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.management import (
    CorrelationRuleFilter,
    FalseRuleFilter,
    ServiceBusAdministrationClient,
    SqlRuleAction,
    SqlRuleFilter,
    TrueRuleFilter,
)

from conformance.admin.conftest import Fresh
from conformance.rest.http_bus import HttpBus
from support.management import entry
from support.server import ServerProcess

PROPERTIES: Final = {
    "text": "words & <more>",
    "small": 7,
    "negative": -3,
    "large": 2**40,
    "real": 1.5,
    "yes": True,
    "no": False,
}


@pytest.fixture
def topic(admin: ServiceBusAdministrationClient, fresh: Fresh) -> str:
    """A topic with the subscription "sub"."""
    name = fresh("rules")
    admin.create_topic(name)
    admin.create_subscription(name, "sub")
    return name


@pytest.mark.rule("FLT-2")
def test_a_new_subscription_has_the_default_rule(
    admin: ServiceBusAdministrationClient, topic: str
) -> None:
    (rule,) = admin.list_rules(topic, "sub")
    assert rule.name == "$Default"
    assert isinstance(rule.filter, TrueRuleFilter)
    assert rule.action is None
    assert isinstance(admin.get_rule(topic, "sub", "$Default").filter, TrueRuleFilter)


@pytest.mark.rule("FLT-7")
@pytest.mark.parametrize(
    ("given", "expression"),
    [
        (TrueRuleFilter(), "1=1"),
        (FalseRuleFilter(), "1=0"),
        (SqlRuleFilter("color = 'blue' AND size <> 3"), "color = 'blue' AND size <> 3"),
    ],
    ids=["true", "false", "sql"],
)
def test_sql_filters(
    admin: ServiceBusAdministrationClient, topic: str, given: Any, expression: str
) -> None:
    created = admin.create_rule(topic, "sub", "rule", filter=given)
    for rule in (created, admin.get_rule(topic, "sub", "rule")):
        assert type(rule.filter) is type(given)
        assert rule.filter.sql_expression == expression
        assert rule.action is None


@pytest.mark.rule("COR-1")
def test_a_correlation_filter(admin: ServiceBusAdministrationClient, topic: str) -> None:
    conditions = {
        name: f"the {name}"
        for name in (
            "correlation_id",
            "message_id",
            "to",
            "reply_to",
            "label",
            "session_id",
            "reply_to_session_id",
            "content_type",
        )
    }
    given = CorrelationRuleFilter(**conditions, properties=PROPERTIES)
    admin.create_rule(topic, "sub", "rule", filter=given, action=SqlRuleAction("SET x = 'y'"))
    got = admin.get_rule(topic, "sub", "rule")
    assert {name: getattr(got.filter, name) for name in conditions} == conditions
    assert got.filter.properties == PROPERTIES
    assert [type(value) for value in got.filter.properties.values()] == [
        type(value) for value in PROPERTIES.values()
    ]
    assert got.action.sql_expression == "SET x = 'y'"


def test_parameters(admin: ServiceBusAdministrationClient, topic: str) -> None:
    values = {f"@{name}": value for name, value in PROPERTIES.items()}
    given = SqlRuleFilter("small = @small AND text <> @text", parameters=values)
    action = SqlRuleAction("SET note = @text", parameters={"@text": "seen"})
    admin.create_rule(topic, "sub", "bound", filter=given, action=action)
    got = admin.get_rule(topic, "sub", "bound")
    assert got.filter.parameters == values
    assert got.action.parameters == {"@text": "seen"}


TIMES: Final = {
    "naive": datetime(2020, 7, 5, 11, 12, 13),
    "utc": datetime(2020, 7, 5, 11, 12, 13, tzinfo=UTC),
    "offset": datetime(2020, 7, 5, 13, 12, 13, tzinfo=timezone(timedelta(hours=2))),
    "span": timedelta(days=1, hours=2, minutes=3),
    "short": timedelta(milliseconds=1, microseconds=5),
    "negative": -timedelta(minutes=90),
}


@pytest.mark.rule("COR-2", "SQL-12")
def test_times_read_back_as_they_were_written(
    admin: ServiceBusAdministrationClient, topic: str
) -> None:
    parameters = {f"@{name}": value for name, value in TIMES.items()}
    admin.create_rule(
        topic,
        "sub",
        "correlation",
        filter=CorrelationRuleFilter(properties=TIMES),
        action=SqlRuleAction("SET x = @utc", parameters=parameters),
    )
    sql = SqlRuleFilter("when > @utc AND span < @span", parameters=parameters)
    admin.create_rule(topic, "sub", "sql", filter=sql)
    got = admin.get_rule(topic, "sub", "correlation")
    for values in (
        got.filter.properties,
        {name.removeprefix("@"): value for name, value in got.action.parameters.items()},
        {
            name.removeprefix("@"): value
            for name, value in admin.get_rule(topic, "sub", "sql").filter.parameters.items()
        },
    ):
        assert values == TIMES
        assert values["naive"].tzinfo is None


@pytest.mark.rule("FLT-8")
@pytest.mark.parametrize("word", ["dateTime", "duration"])
def test_times_that_cannot_be_read_are_refused(
    admin: ServiceBusAdministrationClient, server: ServerProcess, topic: str, word: str
) -> None:
    pair = (
        "<KeyValueOfstringanyType><Key>when</Key>"
        f'<Value i:type="d6p1:{word}" xmlns:d6p1="http://www.w3.org/2001/XMLSchema">soon</Value>'
        "</KeyValueOfstringanyType>"
    )
    rule = (
        f'<RuleDescription><Filter i:type="CorrelationFilter"><Properties>{pair}</Properties>'
        "</Filter><Name>timed</Name></RuleDescription>"
    )
    path = f"/{topic}/Subscriptions/sub/Rules/timed?api-version=2021-05"
    answer = HttpBus(server.ready.http_port).ask("PUT", path, entry(rule))
    assert answer.status == 400
    assert f"'soon', is not a valid {word}" in answer.body.decode()


@pytest.mark.rule("COR-2", "SQL-12", "ACT-2")
def test_times_compare_with_those_of_messages(
    admin: ServiceBusAdministrationClient, server: ServerProcess, topic: str
) -> None:
    when = datetime(2020, 7, 5, 11, 12, 13, tzinfo=UTC)
    admin.create_subscription(topic, "later")
    admin.delete_rule(topic, "sub", "$Default")
    admin.delete_rule(topic, "later", "$Default")
    same = CorrelationRuleFilter(properties={"when": when})
    stamped = SqlRuleAction("SET stamp = @now", parameters={"@now": when + timedelta(days=1)})
    admin.create_rule(topic, "sub", "same", filter=same, action=stamped)
    after = SqlRuleFilter("when > @when", parameters={"@when": when.replace(tzinfo=None)})
    admin.create_rule(topic, "later", "after", filter=after)
    with ServiceBusClient.from_connection_string(server.connection_string) as client:
        with client.get_topic_sender(topic) as sender:
            for body, moment in (("same", when), ("after", when + timedelta(milliseconds=1))):
                sender.send_messages(
                    ServiceBusMessage(body, application_properties={"when": moment})
                )
        for name, body in (("sub", "same"), ("later", "after")):
            with client.get_subscription_receiver(
                topic, name, receive_mode="receiveanddelete", max_wait_time=30
            ) as receiver:
                (message,) = receiver.receive_messages(1)
                assert str(message) == body
                assert receiver.peek_messages() == []
                if name == "sub":
                    stamp = message.application_properties[b"stamp"]
                    assert stamp == int((when + timedelta(days=1)).timestamp() * 1000)


@pytest.mark.rule("FLT-12")
def test_rules_are_listed_by_name(admin: ServiceBusAdministrationClient, topic: str) -> None:
    for name in ("sqlRule", "correlationRule", "Big", "apple"):
        admin.create_rule(topic, "sub", name)
    names = [rule.name for rule in admin.list_rules(topic, "sub")]
    assert names == ["$Default", "apple", "Big", "correlationRule", "sqlRule"]


def test_a_rule_is_replaced_and_taken_away(
    admin: ServiceBusAdministrationClient, topic: str
) -> None:
    admin.create_rule(topic, "sub", "rule", filter=SqlRuleFilter("size > 3"))
    rule = admin.get_rule(topic, "sub", "rule")
    admin.update_rule(topic, "sub", rule, filter=CorrelationRuleFilter(label="blue"))
    assert admin.get_rule(topic, "sub", "rule").filter.label == "blue"
    names = [rule.name for rule in admin.list_rules(topic, "sub")]
    assert names == ["$Default", "rule"]
    admin.delete_rule(topic, "sub", "$Default")
    admin.delete_rule(topic, "sub", "rule")
    assert list(admin.list_rules(topic, "sub")) == []


@pytest.mark.rule("FLT-11")
def test_rule_names_are_unique(admin: ServiceBusAdministrationClient, topic: str) -> None:
    admin.create_rule(topic, "sub", "rule")
    with pytest.raises(ResourceExistsError):
        admin.create_rule(topic, "sub", "RULE")
    with pytest.raises(ResourceNotFoundError):
        admin.delete_rule(topic, "sub", "other")
    with pytest.raises(ResourceNotFoundError):
        admin.get_rule(topic, "sub", "other")
    rule = admin.get_rule(topic, "sub", "rule")
    admin.delete_rule(topic, "sub", "rule")
    with pytest.raises(ResourceNotFoundError):
        admin.update_rule(topic, "sub", rule)
