"""Topics, subscriptions and their rules, by the clients of other languages."""

import pytest

from conformance.sdks.conftest import Fresh, colours
from conformance.sdks.drivers import Sdk
from conformance.sdks.operations import operation
from support.json_admin import JsonAdmin
from support.server import ServerProcess

# What a test leaves a subscription with, as the clients read it back.
RULES = {
    "large": {"sql": "size > 10", "action": "SET seen = 1"},
    "red": {"subject": "red", "properties": {"colour": "red"}},
}


@pytest.fixture
def topic(server: ServerProcess, fresh: Fresh) -> str:
    """A topic with the subscription `all`."""
    name = fresh("topic")
    JsonAdmin(server).create(f"{name}/subscriptions/all", "subscription")
    return name


@operation("rules over AMQP", "Java", "Java async", "Rust")
@pytest.mark.rule("FLT-7")
def test_a_receiver_manages_its_rules(sdk: Sdk, topic: str) -> None:
    assert sdk.run("ruleManager", topic=topic, subscription="all") == RULES


@operation("rules by the administration client", "Go", "Java")
def test_the_administration_client_manages_rules(sdk: Sdk, topic: str) -> None:
    result = sdk.run("administerRules", topic=topic, subscription="all")
    assert result == RULES


@operation("topic and subscription", "Go", "Java", "Java async", "Java processor", "Rust")
@pytest.mark.rule("ENT-3")
def test_a_subscription_receives_what_its_rule_lets_through(sdk: Sdk) -> None:
    result = sdk.run("filters", topic=colours(sdk.client), subscription="blue")
    assert result == {"bodies": ["blue"], "left": 0}
