"""Annotated messages of the stock JavaScript client, which writes the footer before the body."""

from typing import Any

import pytest
from azure.servicebus import ServiceBusMessage

from conformance.messages.conftest import Queues
from conformance.settlement.bus import RECEIVE_AND_DELETE, Bus
from support.javascript import scenario
from support.receiving import collect
from support.server import ServerProcess

pytestmark = pytest.mark.group("javascript")

SCRIPT = "../messages/js/messages.mjs"
SENT = {
    "footer": {"sum": "of it"},
    "hop": "first",
    "note": "kept",
    "applicationProperties": {"one": 1, "two": "two", "three": True},
    "durable": False,
    "firstAcquirer": False,
    "priority": 20,
    "messageId": "the-id",
    "correlationId": "tag",
    "contentEncoding": "utf-8",
}
BODIES: dict[str, tuple[str, Any]] = {
    "data": ("data", {"nested": [1, "two", None]}),
    "text": ("data", "text"),
    "sequence": ("sequence", [[1], [2, "three"]]),
    "flat sequence": ("sequence", [1, 2, 3]),
    "value": ("value", {"hello": [1, 2]}),
    "number": ("value", 1.5),
}


def run(server: ServerProcess, name: str, queue: str, **given: object) -> Any:
    return scenario(SCRIPT, name, connection=server.connection_string, queue=queue, **given)


def check(shown: dict[str, Any], kind: str) -> None:
    body_type, body = BODIES[kind]
    assert (shown["bodyType"], shown["body"]) == (body_type, body)
    assert {name: shown[name] for name in SENT} == SENT


@pytest.mark.rule("MSG-1", "MSG-2")
@pytest.mark.parametrize("kind", BODIES)
@pytest.mark.parametrize("shape", ["plain", "parted-session"])
def test_every_section_arrives(
    server: ServerProcess, queues: Queues, kind: str, shape: str
) -> None:
    body_type, body = BODIES[kind]
    session = {"sessionId": "s"} if "session" in shape else {}
    given = {"body": body, "bodyType": body_type, "batch": kind == "text", **session}
    outcome = run(server, "there", queues.fresh(shape), **given)
    own = {"note", "x-opt-sequence-number", "x-opt-enqueued-time"}
    assert set(outcome["received"]["annotations"]) == own | {"x-opt-locked-until"}
    assert set(outcome["peeked"]["annotations"]) == own | {"x-opt-message-state"}
    for shown in outcome.values():
        check(shown, kind)


@pytest.mark.parametrize("shape", ["plain", "parted", "session", "parted-session"])
def test_a_received_message_is_sent_on(server: ServerProcess, queues: Queues, shape: str) -> None:
    body_type, body = BODIES["data"]
    session = {"sessionId": "s"} if "session" in shape else {}
    given = {"body": body, "bodyType": body_type, "target": queues.fresh(shape), **session}
    shown = run(server, "resend", queues.fresh(shape), **given)
    # The client itself takes along what it knows as properties of its own.
    assert (shown["body"], shown["messageId"]) == (body, "the-id")
    assert shown["applicationProperties"] == SENT["applicationProperties"]


def test_what_python_sent_on_has_a_key_of_text(
    server: ServerProcess, queues: Queues, bus: Bus
) -> None:
    first, second = queues.fresh("plain"), queues.fresh("parted")
    bus.sender(first).send_messages(ServiceBusMessage("body", partition_key="the-key"))
    with bus.receiver(first, receive_mode=RECEIVE_AND_DELETE) as receiver:
        bus.sender(second).send_messages(collect(receiver, 1)[0])
    assert run(server, "take", second)["partitionKey"] == "the-key"


@pytest.mark.rule("SEED-33", "SES-3")
@pytest.mark.parametrize("shape", ["session", "parted-session"])
def test_the_session_without_a_name_is_sent_to(
    server: ServerProcess, queues: Queues, bus: Bus, shape: str
) -> None:
    """With the partition key of another session beside it, as the client's own tests send it."""
    queue = queues.fresh(shape)
    messages = [{"body": n, "sessionId": "", "partitionKey": "other"} for n in range(2)]
    run(server, "send", queue, messages=messages)
    with bus.receiver(queue, session_id="", max_wait_time=10) as receiver:
        received = collect(receiver, 4)
    assert [str(message) for message in received] == ["0", "1", "0", "1"]
    assert {(m.session_id, m.partition_key) for m in received} == {("", "other")}
