"""`partibus receive`: messages out, each settled as asked, and nothing lost on the way."""

import signal
import subprocess

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage

from cli.command import Partibus
from cli.verbs.conftest import MakeQueue


def counts(partibus: Partibus, queue: str) -> dict[str, int]:
    told: dict[str, int] = partibus("entity", "show", queue, "--json").json["totals"]
    return told


def test_one_message_is_printed_and_completed(partibus: Partibus, queue: str) -> None:
    partibus("send", queue, "hello", "--message-id", "m", "-p", "n:int=5", "--subject", "s")
    (message,) = partibus("receive", queue).lines
    assert message["body"] == "hello"
    assert (message["message_id"], message["subject"]) == ("m", "s")
    assert message["properties"] == {"n": 5}
    assert (message["sequence_number"], message["delivery_count"]) == (1, 0)
    assert message["state"] == "active"
    assert {"enqueued_time", "lock_token", "locked_until"} <= message.keys()
    assert counts(partibus, queue)["active"] == 0


def test_up_to_a_number_or_all(partibus: Partibus, queue: str) -> None:
    partibus("send", queue, "{n}", "--count", "250")
    assert len(partibus("receive", queue, "--max", "10").lines) == 10
    rest = partibus("receive", queue, "--all", "--format", "body").out.split()
    assert rest == [str(n) for n in range(10, 250)]
    assert counts(partibus, queue)["active"] == 0


def test_text_for_people(partibus: Partibus, queue: str) -> None:
    partibus("send", queue, "two\nlines \x1b[31m", "--subject", "s", "--session-id", "x")
    line = partibus("receive", queue, "--format", "text").out
    assert line.startswith("     1  ")
    assert "two lines" in line
    assert "\x1b" not in line
    assert "session=x subject=s" in line
    assert line.count("\n") == 1


def test_nothing_there_is_said_on_stderr(partibus: Partibus, queue: str) -> None:
    done = partibus("receive", queue, "--wait", "50ms")
    assert (done.out, done.err) == ("", f"partibus: no message was received from {queue}.\n")
    assert partibus.try_("receive", queue, "--wait", "50ms", "--fail-empty").code == 7


def test_received_and_deleted(partibus: Partibus, queue: str) -> None:
    partibus("send", queue, "x", "--count", "3")
    messages = partibus("receive", queue, "--delete", "--all").lines
    assert len(messages) == 3
    assert all("lock_token" not in message for message in messages)
    assert counts(partibus, queue)["active"] == 0


def test_abandoned_messages_come_again(partibus: Partibus, queue: str) -> None:
    partibus("send", queue, "x")
    partibus("receive", queue, "--settle", "abandon")
    (again,) = partibus("receive", queue).lines
    assert again["delivery_count"] == 1


def test_deferred_messages_are_had_by_their_number(partibus: Partibus, queue: str) -> None:
    partibus("send", queue, "{n}", "--count", "2")
    numbers = [
        m["sequence_number"] for m in partibus("receive", queue, "--all", "--settle", "defer").lines
    ]
    assert counts(partibus, queue)["deferred"] == 2
    flags = [flag for number in numbers for flag in ("--deferred", str(number))]
    assert [m["body"] for m in partibus("receive", queue, *flags).lines] == ["0", "1"]
    assert counts(partibus, queue)["deferred"] == 0
    assert partibus("receive", queue, *flags).out == ""


def test_dead_lettered_with_a_reason(
    partibus: Partibus, client: ServiceBusClient, queue: str
) -> None:
    partibus("send", queue, "x")
    flags = ("--settle", "dead-letter", "--reason", "broken", "--description", "it is")
    partibus("receive", queue, *flags)
    (dead,) = partibus("receive", queue, "--dead-letter").lines
    assert (dead["dead_letter_reason"], dead["dead_letter_error_description"]) == (
        "broken",
        "it is",
    )
    assert "properties" not in dead


def test_sessions_by_id_and_the_next_one(partibus: Partibus, make_queue: MakeQueue) -> None:
    queue = make_queue("--sessions")
    for session in ("a", "b", "a"):
        partibus("send", queue, f"of {session}", "--session-id", session)
    assert [m["body"] for m in partibus("receive", queue, "--session", "b").lines] == ["of b"]
    left = partibus("receive", queue, "--next-session", "--all").lines
    assert [(m["session_id"], m["body"]) for m in left] == [("a", "of a"), ("a", "of a")]
    nothing = partibus("receive", queue, "--next-session", "--wait", "100ms")
    assert nothing.out == ""
    plain = partibus.try_("receive", queue, "--wait", "100ms")
    assert plain.code == 1
    assert "Receive with --session-id ID or --next-session." in plain.err


def test_what_other_clients_send_is_shown(
    partibus: Partibus, client: ServiceBusClient, queue: str
) -> None:
    with client.get_queue_sender(queue) as sender:
        sender.send_messages(ServiceBusMessage(b"\xff\x00", application_properties={"b": b"\x01"}))
    (message,) = partibus("receive", queue).lines
    assert message["body_base64"] == "/wA="
    assert "body" not in message


def test_a_pipe_from_queue_to_queue(partibus: Partibus, make_queue: MakeQueue) -> None:
    source, target = make_queue(), make_queue()
    partibus("send", source, "x", "-p", "when:time=2026-01-31T12:00:00Z", "--partition-key", "k")
    text = partibus("receive", source).out
    partibus("send", target, "--jsonl", stdin=text)
    (message,) = partibus("peek", target).lines
    assert message["properties"] == {"when": {"$time": "2026-01-31T12:00:00.000Z"}}
    assert (message["partition_key"], message["body"]) == ("k", "x")


def test_a_reader_that_goes_away_loses_nothing(partibus: Partibus, queue: str) -> None:
    partibus("send", queue, "y" * 2000, "--count", "500", "--batch", "100")
    with partibus.start("receive", queue, "--all") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(timeout=60) == 0
    left = len(partibus("receive", queue, "--all").lines)
    # A round is settled when all of it was printed, and a pipe takes 64 KiB.
    assert 500 - 2 * 64 * 1024 // 2000 <= left <= 500


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_follow_ends_cleanly(
    partibus: Partibus, queue: str, number: signal.Signals, code: int
) -> None:
    partibus("send", queue, "x")
    with partibus.start("receive", queue, "--follow") as process:
        assert process.stdout is not None
        assert '"body": "x"' in process.stdout.readline()
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (code, "")
    assert counts(partibus, queue)["active"] == 0


def test_a_full_disk_is_told_and_loses_nothing(partibus: Partibus, queue: str) -> None:
    partibus("send", queue, "x")
    with open("/dev/full", "w", encoding="utf-8") as full:  # noqa: PTH123 - a device
        done = subprocess.run(
            partibus.command("receive", queue),
            env=partibus.environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 1
    assert "No space left" in done.stderr
    assert counts(partibus, queue)["active"] == 1


@pytest.mark.parametrize(
    "flags",
    [
        ("--delete", "--settle", "defer"),
        ("--reason", "x"),
        ("--session", "a", "--next-session"),
        ("--max", "0"),
        ("--wait", "soon"),
        ("--settle", "drop"),
    ],
)
def test_wrong_usage(partibus: Partibus, queue: str, flags: tuple[str, ...]) -> None:
    assert partibus.try_("receive", queue, *flags).code == 2


def test_a_queue_that_is_not_there(partibus: Partibus) -> None:
    assert partibus.try_("receive", "no-such-queue").code == 4
