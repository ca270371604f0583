"""The stock JavaScript client with topics and its rule manager: one scenario a test.

All scenarios of js/topics.mjs run side by side in one Node process, once for each shape of topic.
"""

import re
from collections.abc import Callable
from typing import Any

import pytest

from conformance.topics.namespace import SHAPES, Topics
from support.javascript import scenario
from support.server import ServerProcess

pytestmark = pytest.mark.group("javascript")

SCRIPT = "../topics/js/topics.mjs"
SCENARIOS = ("delivery", "rules", "dates", "refusals", "scheduled", "many")
Result = Callable[[str], Any]


@pytest.fixture(scope="module", params=SHAPES)
def outcomes(
    request: pytest.FixtureRequest, server: ServerProcess, topics: Topics
) -> dict[str, Any]:
    given = {name: {"topic": topics.fresh("plain", request.param)} for name in SCENARIOS}
    found: dict[str, Any] = scenario(
        SCRIPT, "all", connection=server.connection_string, topics=given
    )
    return found


@pytest.fixture
def result(outcomes: dict[str, Any]) -> Result:
    def of(name: str) -> Any:
        assert "error" not in outcomes[name], outcomes[name]["error"]
        return outcomes[name]["result"]

    return of


@pytest.mark.rule("ENT-3", "SEED-8")
def test_subscriptions_are_received_from_like_queues(result: Result) -> None:
    assert result("delivery") == {
        "deleted": list("abcd"),
        "received": list("abcd"),
        "again": True,
        "letter": "why",
    }


@pytest.mark.rule("FLT-2", "FLT-5", "FLT-10", "FLT-12", "SEED-74", "SEED-76")
def test_rules_come_and_go(result: Result) -> None:
    found = result("rules")
    (default,) = found["atFirst"]
    assert default == {"name": "$Default", "filter": {"sqlExpression": "1=1"}, "action": {}}
    large, red = found["inTheMiddle"]
    assert red["name"] == "red"
    assert red["filter"]["subject"] == "red"
    assert red["filter"]["applicationProperties"] == {"big": True, "size": 2}
    assert large == {
        "name": "large",
        "filter": {"sqlExpression": "size > 10"},
        "action": {"sqlExpression": "SET seen = 'yes'"},
    }
    assert found["atLast"] == []
    assert found["first"] == ["large", "red"]
    assert found["second"] == ["large", "nobody", "not red", "red", "red again"]


@pytest.mark.rule("COR-2")
def test_a_date_in_a_filter(result: Result) -> None:
    found = result("dates")
    assert found["isDate"] is True
    assert found["found"] == {
        "text": "t",
        "number": 2,
        "half": 0.5,
        "yes": True,
        "when": "2000-01-02T03:04:05.678Z",
    }
    assert found["first"] == ["then"]


@pytest.mark.rule("FLT-8", "FLT-11")
def test_rules_that_cannot_be(result: Result) -> None:
    found = result("refusals")
    assert re.search("The messaging entity '.*default' already exists\\.", found["twin"]["text"])
    assert found["twin"]["code"] == "MessagingEntityAlreadyExists"
    assert found["missing"]["code"] == "MessagingEntityNotFound"
    assert "At character 10" in found["sql"]["text"]
    assert "sql_filter" in found["sql"]["text"]
    assert "action" in found["action"]["text"]
    assert "50 characters" in found["name"]["text"]
    assert found["left"] == ["$Default"]


@pytest.mark.rule("SCH-10", "SCH-3")
def test_filters_run_when_a_scheduled_message_is_due(result: Result) -> None:
    assert result("scheduled") == {"second": ["later"], "first": []}


@pytest.mark.rule("FLT-3")
def test_rules_that_are_added_together_are_all_there(result: Result) -> None:
    found = result("many")
    assert found["names"] == sorted(f"rule-{n}" for n in range(20))
    assert found["first"] == 20
