"""Microsoft's older Node client `azure-sb`, unmodified: REST over TLS, tokens for each address."""

import os
from typing import Any

import pytest

from support.javascript import scenario
from support.namespace import POLICIES, ROOT_KEY, ROOT_POLICY
from support.server import ServerProcess

pytestmark = pytest.mark.group("javascript")


def run(
    server: ServerProcess,
    name: str,
    policy: str = ROOT_POLICY,
    key: str = ROOT_KEY,
    **given: object,
) -> Any:
    """The client takes `sb://` for HTTPS on the port that is named, and no host without a dot."""
    connection = (
        f"Endpoint=sb://127.0.0.1:{server.ready.amqp_port}/;"
        f"SharedAccessKeyName={policy};SharedAccessKey={key}"
    )
    environment = os.environ | {"NODE_EXTRA_CA_CERTS": str(server.ready.ca)}
    return scenario("azure-sb.mjs", name, environment=environment, connection=connection, **given)


@pytest.mark.rule("HTP-1", "HTP-2", "SAS-5")
def test_send_and_receive(server: ServerProcess, queue: str) -> None:
    result = run(server, "sendAndTake", queue=queue)
    first, second = result["taken"]
    # The client takes every header that it does not know for a property.
    custom = {name: first["custom"][name] for name in ("tenant", "count", "good")}
    assert (first["body"], custom) == ("hello", {"tenant": "a", "count": 7, "good": True})
    shown = {name: first["broker"][name] for name in ("MessageId", "Label", "TimeToLive")}
    assert shown == {"MessageId": "one", "Label": "greeting", "TimeToLive": 90}
    assert second["body"] == "plain"
    assert result["empty"]["text"] == "No messages to receive"


@pytest.mark.rule("HTP-2", "HTP-3", "SEED-100")
def test_peek_lock(server: ServerProcess, queue: str) -> None:
    result = run(server, "peekLock", queue=queue)
    assert result["counts"] == [1, 2]
    assert result["again"]["status"] == 404, "the lock is gone with the message"
    assert result["empty"]["text"] == "No messages to receive"


@pytest.mark.rule("HTP-1", "HTP-2")
def test_topics_subscriptions_and_rules(server: ServerProcess) -> None:
    result = run(server, "topics", topic="older-node-topic")
    assert (result["rules"], result["filter"]) == (["colour"], "colour = 'red'")
    assert (result["all"], result["red"]) == (["red", "blue"], "red")
    assert result["empty"]["text"] == "No messages to receive"


def test_administration(server: ServerProcess) -> None:
    result = run(server, "administer", queue="older-node-queue", topic="older-node-other")
    assert result["made"] == ["older-node-queue", "PT45S", "3"]
    assert result["isNew"] is False
    assert result["found"] == ["older-node-queue", "0"]
    assert "older-node-queue" in result["queues"]
    assert result["twice"]["code"] == "409"
    assert "older-node-other" in result["topics"]
    assert (result["subscriptions"], result["subscription"]) == (["s"], "PT1M")
    assert result["gone"]["code"] and result["goneTopic"]["status"] == 404
    assert result["lost"]["status"] == 410


@pytest.mark.rule("SAS-8", "HTP-4")
def test_a_key_without_the_right(server: ServerProcess, queue: str) -> None:
    policy = "NamespaceListen"
    with pytest.raises(AssertionError, match="401"):
        run(server, "send", policy, POLICIES[policy][0], queue=queue)
    with pytest.raises(AssertionError, match="401"):
        run(server, "send", ROOT_POLICY, "wrong", queue=queue)
