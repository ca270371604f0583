"""`partibus schedule`: messages for later."""

from pathlib import Path

import pytest

from cli.command import Partibus


def test_a_number_cancels_what_it_scheduled(partibus: Partibus, queue: str) -> None:
    made = partibus("schedule", "create", queue, "later", "--delay", "1h", "--json").json
    assert made["entity"] == queue
    partibus("schedule", "create", queue, "much later", "--at", "2099-01-01T00:00:00Z")
    listed = partibus("schedule", "list", queue).lines
    assert [(m["body"], m["state"]) for m in listed] == [
        ("later", "scheduled"),
        ("much later", "scheduled"),
    ]
    assert listed[0]["sequence_number"] == made["sequence_number"]
    assert listed[0]["scheduled_enqueue_time"] == made["scheduled_enqueue_time"]
    number = str(made["sequence_number"])
    assert partibus("schedule", "cancel", queue, number).out == f"{queue}: 1 cancelled\n"
    assert [m["body"] for m in partibus("schedule", "list", queue).lines] == ["much later"]
    assert partibus.try_("schedule", "cancel", queue, number).code == 4


def test_active_messages_are_not_listed(partibus: Partibus, queue: str, tmp_path: Path) -> None:
    partibus("send", queue, "now")
    assert (
        partibus("schedule", "list", queue).err
        == f"partibus: no message is scheduled in {queue}.\n"
    )
    (tmp_path / "body").write_bytes(b"\xff")
    flags = ("--session-id", "s", "-p", "n:int=1", "--message-id", "m")
    partibus("schedule", "create", queue, "--file", str(tmp_path / "body"), "--delay", "1h", *flags)
    (message,) = partibus("schedule", "list", queue).lines
    assert message["body_base64"] == "/w=="
    assert (message["session_id"], message["message_id"]) == ("s", "m")
    assert message["properties"] == {"n": 1}


@pytest.mark.parametrize(
    "flags", [(), ("x",), ("--delay", "1s"), ("x", "--file", "y", "--delay", "1s")]
)
def test_a_body_and_a_time_are_needed(
    partibus: Partibus, queue: str, flags: tuple[str, ...]
) -> None:
    assert partibus.try_("schedule", "create", queue, *flags).code == 2


def test_a_queue_that_is_not_there(partibus: Partibus) -> None:
    assert partibus.try_("schedule", "create", "no-such-queue", "x", "--delay", "1h").code == 4
    assert partibus.try_("schedule", "list", "no-such-queue").code == 4
