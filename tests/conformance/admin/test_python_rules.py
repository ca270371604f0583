"""Rules, by the stock Python administration client: every filter, action and typed value."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest
from azure.core.exceptions import HttpResponseError, ResourceExistsError, ResourceNotFoundError
from azure.servicebus.management import (
    CorrelationRuleFilter,
    FalseRuleFilter,
    ServiceBusAdministrationClient,
    SqlRuleAction,
    SqlRuleFilter,
    TrueRuleFilter,
)

from conformance.admin.conftest import Fresh

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


@pytest.mark.parametrize("value", [datetime.now(UTC), timedelta(days=1)], ids=["moment", "span"])
def test_values_of_types_that_are_not_offered(
    admin: ServiceBusAdministrationClient, topic: str, value: object
) -> None:
    given = CorrelationRuleFilter(properties={"when": value})
    with pytest.raises(HttpResponseError) as caught:
        admin.create_rule(topic, "sub", "timed", filter=given)
    assert caught.value.status_code == 400
    assert "'when'" in caught.value.message or "when:" in caught.value.message


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
