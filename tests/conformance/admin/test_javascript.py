"""The stock JavaScript administration client: every operation, on each port."""

from typing import Any, Final

import pytest

from conformance.admin.conftest import Fresh
from support.javascript import scenario
from support.sas import with_key
from support.server import ServerProcess

pytestmark = pytest.mark.group("javascript")

SCRIPT: Final = "administration.mjs"
UNLIMITED: Final = "P10675199DT2H48M5.4775807S"
QUEUE: Final = {
    "lockDuration": "PT1M",
    "maxSizeInMegabytes": 1024,
    "maxDeliveryCount": 10,
    "enablePartitioning": False,
    "requiresSession": False,
    "enableBatchedOperations": True,
    "defaultMessageTimeToLive": UNLIMITED,
    "autoDeleteOnIdle": UNLIMITED,
    "requiresDuplicateDetection": False,
    "duplicateDetectionHistoryTimeWindow": "PT10M",
    "deadLetteringOnMessageExpiration": False,
    "status": "Active",
    "enableExpress": False,
    "availabilityStatus": "Available",
    "maxMessageSizeInKilobytes": 1024,
}


class Script:
    """Runs scenarios against one endpoint."""

    def __init__(self, connection: str, environment: dict[str, str]) -> None:
        self._connection = connection
        self._environment = environment

    def __call__(self, name: str, **given: object) -> Any:
        return scenario(
            SCRIPT, name, environment=self._environment, connection=self._connection, **given
        )

    def error(self, operation: str, *given: object) -> dict[str, Any]:
        """What an operation throws."""
        outcome = self("failure", operation=operation, given=given)
        assert isinstance(outcome, dict)
        return outcome


@pytest.fixture
def script(connection: str, environment: dict[str, str]) -> Script:
    return Script(connection, environment)


@pytest.fixture
def here(server: ServerProcess, environment: dict[str, str]) -> Script:
    return Script(server.connection_string, environment)


def test_the_namespace(script: Script) -> None:
    namespace = script("namespace")
    assert (namespace["name"], namespace["messagingSku"]) == ("partibus", "Standard")


@pytest.mark.parametrize("version", ["2017-04", "2021-05"])
def test_the_life_of_a_queue(script: Script, fresh: Fresh, version: str) -> None:
    name = f"js/{fresh('life')}"
    life = script("queueLife", entity=name, version=version)
    expected: dict[str, Any] = QUEUE | {"name": name}
    if version == "2017-04":
        del expected["maxMessageSizeInKilobytes"]
    assert life["created"] == life["got"] == expected
    assert (life["before"], life["after"], life["gone"]) == (False, True, False)
    assert life["listed"] is True
    assert life["runtime"] == life["figures"]
    assert life["runtime"]["totalMessageCount"] == life["runtime"]["sizeInBytes"] == 0


def test_every_property_of_a_queue(here: Script, fresh: Fresh) -> None:
    name = fresh("full")
    full = here("fullQueue", entity=name)
    assert full["got"] == QUEUE | full["asked"] | {"name": name}
    changes = {
        "lockDuration": "PT20S",
        "maxSizeInMegabytes": 5120,
        "defaultMessageTimeToLive": "PT1H",
        "deadLetteringOnMessageExpiration": False,
        "duplicateDetectionHistoryTimeWindow": "PT5M",
        "maxDeliveryCount": 2,
        "enableBatchedOperations": True,
        "status": "Active",
        "userMetadata": "other",
        "autoDeleteOnIdle": "PT10M",
        "maxMessageSizeInKilobytes": 1024,
    }
    updated = here("updateQueue", entity=name, changes=changes)
    assert updated["answered"] == updated["got"] == full["got"] | changes


def test_a_queue_that_forwards(script: Script, connection: str, fresh: Fresh) -> None:
    endpoint = connection.split(";", 1)[0].removeprefix("Endpoint=")
    name = fresh("forwards")
    got = script("forwardingQueue", entity=name, target="target", letters="target-topic")
    assert got["forwardTo"] == f"{endpoint}/target"
    assert got["forwardDeadLetteredMessagesTo"] == f"{endpoint}/target-topic"


def test_the_life_of_a_topic(here: Script, fresh: Fresh) -> None:
    life = here("topicLife", entity=fresh("topic"))
    assert life["got"].items() >= life["asked"].items()
    assert life["created"].items() >= life["asked"].items()
    changed = {"status": "Active", "userMetadata": "changed", "supportOrdering": True}
    assert life["updated"].items() >= (life["asked"] | changed).items()
    assert (life["before"], life["listed"], life["gone"]) == (False, True, False)
    assert life["runtime"]["subscriptionCount"] == life["figures"]["subscriptionCount"] == 0


def test_the_life_of_a_subscription(here: Script, fresh: Fresh) -> None:
    topic = fresh("topic")
    life = here("subscriptionLife", topic=topic, entity="sub")
    asked = life["asked"]
    first = asked.pop("defaultRuleOptions")
    assert life["got"].items() >= (asked | {"topicName": topic, "subscriptionName": "sub"}).items()
    assert life["rules"] == [first]
    assert life["updated"]["maxDeliveryCount"] == 9
    assert (life["kept"], life["listed"]) == (["first"], ["sub"])
    assert life["runtime"]["totalMessageCount"] == 0
    assert len(life["figures"]) == 1
    assert (life["before"], life["gone"]) == (False, False)


def test_the_life_of_rules(here: Script, fresh: Fresh) -> None:
    life = here("ruleLife", topic=fresh("topic"), subscription="sub")
    sql, correlation, properties = life["made"]
    assert sql["filter"] == {"sqlExpression": "color = 'blue' AND size > 3"}
    assert sql["action"] == {"sqlExpression": "SET size = 4"}
    assert correlation["filter"] == {
        "correlationId": "c",
        "subject": "s",
        "to": "t",
        "replyTo": "r",
        "replyToSessionId": "rs",
        "sessionId": "id",
        "messageId": "m",
        "contentType": "x/y",
    }
    values = {"text": "words", "number": 1.5, "flag": True}
    assert properties["filter"] == {"applicationProperties": values}
    assert life["existed"] is True
    assert life["updated"]["filter"] == {"sqlExpression": "size > 5"}
    assert life["listed"] == ["$Default", "correlation", "properties", "sql"]
    assert life["gone"] is False


def test_parameters(here: Script, fresh: Fresh) -> None:
    rule = here("parameters", topic=fresh("topic"), subscription="sub")
    assert rule["filter"] == {
        "sqlExpression": "size > @least AND at < @at",
        "sqlParameters": {"@least": 3, "@at": "2000-01-02T03:04:05.678Z"},
    }
    assert rule["isDate"] is True
    assert rule["action"] == {
        "sqlExpression": "SET note = @note",
        "sqlParameters": {"@note": "seen"},
    }


def test_lists_in_pages(here: Script, fresh: Fresh) -> None:
    topic = fresh("topic")
    here("ruleLife", topic=topic, subscription="sub")
    pages = here("pages", topic=topic, subscription="sub", size=2)
    assert pages["rules"] == [["$Default", "correlation"], ["properties"]]
    assert pages["subscriptions"] == [["sub"]]
    assert all(len(page) == 2 for page in pages["queues"][:-1])
    assert pages["queues"] == pages["queueFigures"]
    assert {"guarded", "target"} <= {name for page in pages["queues"] for name in page}
    assert topic in [name for page in pages["topics"] for name in page]


def test_errors(here: Script, fresh: Fresh) -> None:
    name = fresh("errors")
    here("call", operation="createQueue", given=[name])
    for code, operation, *given in (
        ("MessageEntityAlreadyExistsError", "createQueue", name),
        ("MessageEntityAlreadyExistsError", "createTopic", name),
        ("MessageEntityNotFoundError", "getQueue", "missing"),
        ("MessageEntityNotFoundError", "getSubscription", "missing", "sub"),
        ("MessageEntityNotFoundError", "deleteTopic", "missing"),
        ("MessageEntityNotFoundError", "updateQueue", QUEUE | {"name": "missing"}),
        ("ServiceError", "createQueue", "wrong", {"lockDuration": "PT0S"}),
        ("ServiceError", "createQueue", "wrong", {"maxDeliveryCount": -1}),
        ("ServiceError", "updateQueue", QUEUE | {"name": name, "requiresSession": True}),
        ("ServiceError", "createQueue", "wrong", {"forwardTo": "missing"}),
        ("ServiceError", "createSubscription", "target-topic", "-"),
    ):
        error = here.error(operation, *given)
        assert (error["code"], error["name"]) == (code, "RestError"), (operation, error)
        assert "SubCode=" in error["text"]
        assert "TrackingId:" in error["text"]
    assert here("call", operation="queueExists", given=["wrong"]) is False


@pytest.mark.rule("SAS-8")
@pytest.mark.parametrize(
    ("policy", "key"),
    [
        ("RootManageSharedAccessKey", "wrong"),
        ("NamespaceListen", "namespace-listen-key"),
        ("GuardedManage", "guarded-manage-key"),
    ],
)
def test_rights(server: ServerProcess, environment: dict[str, str], policy: str, key: str) -> None:
    other = Script(with_key(server.connection_string, policy, key), environment)
    for operation, *given in (
        ("getQueue", "target"),
        ("createQueue", "not-made"),
        ("getNamespaceProperties",),
        ("deleteQueue", "target"),
    ):
        assert other.error(operation, *given)["code"] == "UnauthorizedRequestError"


@pytest.mark.rule("SAS-6")
def test_a_policy_of_a_queue_administers_it(
    server: ServerProcess, environment: dict[str, str]
) -> None:
    own = with_key(server.connection_string, "GuardedManage", "guarded-manage-key")
    got = Script(own, environment)("call", operation="getQueue", given=["guarded"])
    assert got["name"] == "guarded"
