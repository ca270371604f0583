"""The stock JavaScript client under Node: each test runs one scenario of js/service-bus.mjs."""

import os
from typing import Any

import pytest

from support.javascript import failure, scenario
from support.namespace import POLICIES, ROOT_KEY, ROOT_POLICY, Queues
from support.sas import sas_token, with_key, with_token
from support.server import ServerProcess

pytestmark = pytest.mark.group("javascript")

SCRIPT = "service-bus.mjs"


def run(server: ServerProcess, name: str, queue: str, **given: object) -> Any:
    return scenario(SCRIPT, name, connection=server.connection_string, queue=queue, **given)


def refused(connection: str, name: str, queue: str, **given: object) -> dict[str, Any]:
    return failure(SCRIPT, name, connection=connection, queue=queue, **given)


@pytest.mark.rule("SEED-82", "SEED-99", "SEED-38")
def test_a_message_is_received_with_an_id_and_completed_away(
    server: ServerProcess, queue: str
) -> None:
    first, marker = run(server, "sendAndComplete", queue)
    assert (first["body"], marker["body"]) == ("first", "marker")
    assert first["messageId"], "the client sends no id and cannot settle a message without one"
    assert marker["sequenceNumber"] == first["sequenceNumber"] + 1


def test_batches(server: ServerProcess, queue: str) -> None:
    messages = run(server, "batches", queue)
    assert [message["body"] for message in messages[:20]] == list(range(20))
    assert {message["body"] for message in messages[20:]} == {20, 21}
    assert messages[3]["messageId"] == "id-3"
    numbers = [message["sequenceNumber"] for message in messages]
    assert numbers == list(range(numbers[0], numbers[0] + 22))


@pytest.mark.rule("SEED-85", "SEED-86")
def test_pipelined_sends(server: ServerProcess, queue: str) -> None:
    assert sorted(run(server, "pipelined", queue, count=300)) == list(range(300))


@pytest.mark.parametrize("size", [150_000, 1_000_000])
def test_a_large_message(server: ServerProcess, queue: str, size: int) -> None:
    assert run(server, "large", queue, size=size) == {"length": size, "same": True}


@pytest.mark.rule("MSG-1", "MSG-2")
def test_properties_come_back_as_they_were_sent(server: ServerProcess, queue: str) -> None:
    result = run(server, "properties", queue)
    assert result["different"] == [], result["received"]


@pytest.mark.rule("SEED-97", "SEED-100", "DLV-1", "LCK-10", "SEQ-8")
def test_abandon(server: ServerProcess, queue: str) -> None:
    first, again = run(server, "abandon", queue)
    assert (first["body"], again["body"]) == ("one", "one")
    assert (first["deliveryCount"], again["deliveryCount"]) == (0, 1)
    assert first["sequenceNumber"] == again["sequenceNumber"]
    assert again["properties"] == {"tries": 1}


@pytest.mark.rule("SEED-101", "DLQ-5")
def test_dead_letter(server: ServerProcess, queue: str) -> None:
    dead = run(server, "deadLetter", queue)
    assert dead["body"] == "bad"
    assert (dead["deadLetterReason"], dead["deadLetterErrorDescription"]) == (
        "Unreadable",
        "not JSON",
    )
    assert dead["properties"]["tenant"] == "a"


@pytest.mark.rule("SEED-98", "DLV-2", "DLQ-6")
def test_too_many_deliveries(server: ServerProcess, queues: Queues) -> None:
    dead = run(server, "maxDeliveryCount", queues.fresh("fragile"), maxDeliveryCount=2)
    assert (dead["body"], dead["deadLetterReason"]) == ("poison", "MaxDeliveryCountExceeded")


@pytest.mark.rule("SEED-103", "SEED-108", "LCK-5", "ERR-4")
def test_a_lost_lock(server: ServerProcess, queues: Queues) -> None:
    result = run(server, "lockLost", queues.fresh("brief"))
    assert result == {"code": "MessageLockLost", "deliveryCount": 1}


def test_a_receive_that_times_out_keeps_its_link(server: ServerProcess, queue: str) -> None:
    assert run(server, "drain", queue) == [["one", "two"], [], ["three"]]


def test_streaming(server: ServerProcess, queue: str) -> None:
    assert sorted(run(server, "streaming", queue, count=50)) == list(range(50))


@pytest.mark.rule("ERR-1")
def test_a_missing_queue(server: ServerProcess) -> None:
    for name in ("send", "receive"):
        error = refused(server.connection_string, name, "no-such-queue")
        assert error["code"] == "MessagingEntityNotFound"


@pytest.mark.rule("ERR-8")
def test_a_message_that_is_too_large(server: ServerProcess, queue: str) -> None:
    error = refused(server.connection_string, "send", queue, size=1_100_000)
    assert error["code"] == "MessageSizeExceeded"


@pytest.mark.rule("ERR-12", "SAS-8")
def test_what_is_not_allowed(server: ServerProcess, queue: str) -> None:
    here = server.connection_string
    send_only = with_key(here, "NamespaceSend", POLICIES["NamespaceSend"][0])
    audience = f"sb://localhost:{server.ready.amqp_port}/{queue}"
    expired = with_token(here, sas_token(audience, lifetime_seconds=-60))
    attempts = {
        "wrong key": (with_key(here, ROOT_POLICY, "wrong"), "send"),
        "expired token": (expired, "send"),
        "token for another queue": (with_token(here, sas_token(f"{audience}-other")), "send"),
        "no right to listen": (send_only, "receive"),
    }
    codes = {what: refused(*attempt, queue)["code"] for what, attempt in attempts.items()}
    assert codes == dict.fromkeys(attempts, "UnauthorizedAccess")


def test_tls_with_the_development_ca(server: ServerProcess, queue: str) -> None:
    connection = (
        f"Endpoint=sb://localhost:{server.ready.amqp_port};"
        f"SharedAccessKeyName={ROOT_POLICY};SharedAccessKey={ROOT_KEY}"
    )
    environment = os.environ | {"NODE_EXTRA_CA_CERTS": str(server.ready.ca)}
    first, _ = scenario(
        SCRIPT, "sendAndComplete", environment=environment, connection=connection, queue=queue
    )
    assert first["body"] == "first"
