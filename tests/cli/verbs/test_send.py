"""`partibus send`: what a stock client receives of it, and what is refused."""

import datetime
import json
import uuid
from pathlib import Path

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusReceivedMessage

from cli.command import Partibus
from support.receiving import collect
from support.sas import with_key
from support.server import ServerProcess


def received(client: ServiceBusClient, queue: str, count: int) -> list[ServiceBusReceivedMessage]:
    with client.get_queue_receiver(queue) as receiver:
        messages = collect(receiver, count)
        for message in messages:
            receiver.complete_message(message)
    return messages


def test_a_body_and_every_field(partibus: Partibus, client: ServiceBusClient, queue: str) -> None:
    moment = "2026-01-31T12:00:00+00:00"
    token = str(uuid.uuid4())
    done = partibus(
        *("send", queue, "hello", "--message-id", "m1", "--session-id", "s1", "--subject", "greet"),
        *("--content-type", "text/plain", "--correlation-id", "c1", "--reply-to", "answers"),
        *("--to", "you", "--ttl", "1h", "-p", "text=5", "-p", "number:int=5", "-p", "long:long=6"),
        *("-p", "share:double=0.5", "-p", "yes:bool=true", "-p", f"when:time={moment}"),
        *("-p", f"id:uuid={token}"),
    )
    assert done.out == f"{queue}: 1 message sent\n"
    (message,) = received(client, queue, 1)
    assert b"".join(message.body) == b"hello"
    assert (message.message_id, message.session_id, message.subject) == ("m1", "s1", "greet")
    assert (message.content_type, message.correlation_id) == ("text/plain", "c1")
    assert (message.reply_to, message.to) == ("answers", "you")
    assert message.time_to_live == datetime.timedelta(hours=1)
    assert message.application_properties == {
        b"text": b"5",
        b"number": 5,
        b"long": 6,
        b"share": 0.5,
        b"yes": True,
        b"when": round(datetime.datetime.fromisoformat(moment).timestamp() * 1000),
        b"id": uuid.UUID(token),
    }


def test_each_line_is_a_message(partibus: Partibus, client: ServiceBusClient, queue: str) -> None:
    done = partibus("send", queue, "--json", stdin="one\n\ntwo\r\nthree")
    assert (done.json["entity"], done.json["sent"]) == (queue, 3)
    bodies = [b"".join(m.body) for m in received(client, queue, 3)]
    assert bodies == [b"one", b"two", b"three"]


def test_lines_come_through_a_real_pipe(
    partibus: Partibus, client: ServiceBusClient, queue: str, tmp_path: Path
) -> None:
    (tmp_path / "lines").write_text("".join(f"line {n}\n" for n in range(300)), "utf-8")
    assert partibus.process("send", queue, "--input", str(tmp_path / "lines")).code == 0
    assert len(received(client, queue, 300)) == 300


def test_a_file_is_one_body(
    partibus: Partibus, client: ServiceBusClient, queue: str, tmp_path: Path
) -> None:
    (tmp_path / "body.bin").write_bytes(bytes(range(256)) + b"\n\n")
    partibus("send", queue, "--file", str(tmp_path / "body.bin"))
    (message,) = received(client, queue, 1)
    assert b"".join(message.body) == bytes(range(256)) + b"\n\n"


def test_lines_of_json_have_fields_of_their_own(
    partibus: Partibus, client: ServiceBusClient, queue: str
) -> None:
    lines = [
        {"body": "a", "message_id": "own", "properties": {"n": 1, "x": "mine"}},
        {"body": {"k": [1, 2]}},
        {"body_base64": "AP8="},
    ]
    text = "\n".join(json.dumps(line) for line in lines)
    partibus("send", queue, "--jsonl", "-p", "x=theirs", "--subject", "s", stdin=text)
    first, second, third = received(client, queue, 3)
    assert (first.message_id, first.subject) == ("own", "s")
    assert first.application_properties == {b"n": 1, b"x": b"mine"}
    assert json.loads(b"".join(second.body)) == {"k": [1, 2]}
    assert second.content_type == "application/json"
    assert second.application_properties == {b"x": b"theirs"}
    assert b"".join(third.body) == b"\x00\xff"


def test_many_are_numbered_and_batched(
    partibus: Partibus, client: ServiceBusClient, queue: str
) -> None:
    done = partibus(
        "send", queue, "n {n}", "--count", "250", "--batch", "100", "--message-id", "m{n}"
    )
    assert done.out == f"{queue}: 250 messages sent\n"
    messages = received(client, queue, 250)
    assert [b"".join(m.body).decode() for m in messages] == [f"n {n}" for n in range(250)]
    assert [m.message_id for m in messages] == [f"m{n}" for n in range(250)]


def test_batches_are_cut_by_size(partibus: Partibus, queue: str) -> None:
    large = "x" * 300_000
    done = partibus("send", queue, large, "--count", "8", "--batch", "8")
    assert done.out == f"{queue}: 8 messages sent\n"
    assert len(partibus("peek", queue, "--max", "20").lines) == 8


@pytest.mark.parametrize("flags", [("--delay", "1h"), ("--at", "2099-01-01T00:00:00Z")])
def test_a_message_for_later_is_scheduled(
    partibus: Partibus, queue: str, flags: tuple[str, ...]
) -> None:
    partibus("send", queue, "later", *flags)
    (peeked,) = partibus("peek", queue).lines
    assert peeked["state"] == "scheduled"
    assert peeked["scheduled_enqueue_time"] > peeked["enqueued_time"][:4]


def test_what_was_sent_before_a_mistake_is_told(partibus: Partibus, queue: str) -> None:
    done = partibus.try_(
        "send", queue, "--jsonl", stdin='{"body": "a"}\n{"body": "b", "sujbect": 1}'
    )
    assert done.code == 2
    assert done.err.startswith(
        "partibus: standard input, line 2: 'sujbect' is not a field of a message"
    )
    assert "did you mean 'subject'?" in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("a", "--file", "x"), "not both"),
        (("a", "--jsonl"), "cannot be combined with --input or --jsonl"),
        (("--count", "2"), "--count needs a body"),
        (("a", "--at", "tomorrow"), "is not a valid time"),
        (("a", "--ttl", "soon"), "is not a valid duration"),
        (("a", "-p", "x"), "is not a property"),
        (("a", "-p", "x:int=y"), "'y' is not a valid int"),
        (("a", "-p", "x:thing=y"), "the types are string, int"),
        (("a", "--at", "2099-01-01", "--delay", "1s"), "not both"),
        (("a", "--rate", "fast"), "is not a valid rate"),
    ],
)
def test_wrong_usage_is_exit_code_two(
    partibus: Partibus, queue: str, arguments: tuple[str, ...], words: str
) -> None:
    done = partibus.try_("send", queue, *arguments)
    assert done.code == 2
    assert words in " ".join(done.err.replace("│", " ").split())
    assert partibus("peek", queue).out == ""


def test_failures_have_their_exit_codes(partibus: Partibus, bus: ServerProcess, queue: str) -> None:
    missing = partibus.try_("send", "no-such-queue", "x")
    assert (missing.code, missing.out) == (4, "")
    assert "could not be found" in missing.err
    assert "TrackingId" not in missing.err
    wrong_key = with_key(bus.connection_string, "RootManageSharedAccessKey", "wrong")
    assert partibus.try_("send", queue, "x", "--connection-string", wrong_key).code == 6
    reader = with_key(bus.connection_string, "Reader", "reader-key")
    refused = partibus.try_("send", queue, "x", "--connection-string", reader)
    assert refused.code == 6
    assert "'Send' claim(s) are required" in refused.err
    away = "Endpoint=sb://127.0.0.1:1;SharedAccessKeyName=a;SharedAccessKey=b;UseDevelopmentEmulator=true"
    unreachable = partibus.try_("send", queue, "x", "--connection-string", away)
    assert unreachable.code == 5
    assert unreachable.err.count("\n") == 1
    assert partibus.try_("send", queue, "x", "--connection-string", "nonsense").code == 2
    assert partibus.try_("send", queue, "x" * 2_000_000).code == 1


def test_it_speaks_tls_to_a_server_whose_authority_it_trusts(
    partibus: Partibus, bus: ServerProcess, queue: str
) -> None:
    secure = (
        f"Endpoint=sb://localhost:{bus.ready.amqp_port};SharedAccessKeyName="
        "RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE"
    )
    stranger = partibus.try_("send", queue, "x", "--connection-string", secure)
    assert stranger.code == 5
    assert "--ca-file" in stranger.err
    partibus("send", queue, "x", "--connection-string", secure, "--ca-file", str(bus.ready.ca))
    assert len(partibus("peek", queue).lines) == 1


def test_a_topic_is_sent_to_and_its_subscription_received_from(
    partibus: Partibus, queue: str
) -> None:
    topic = f"topic-of-{queue}"
    partibus("topic", "create", topic)
    partibus("subscription", "create", topic, "red")
    partibus("rule", "delete", topic, "red", "$Default", "--yes")
    partibus("rule", "create", topic, "red", "colour", "--sql-filter", "colour = 'red'")
    for colour in ("red", "blue"):
        partibus("send", topic, colour, "-p", f"colour={colour}")
    done = partibus("receive", f"{topic}/Subscriptions/red", "--all", "--json")
    assert [json.loads(line)["body"] for line in done.out.splitlines()] == ["red"]
