"""`partibus session`: which there are, and their state."""

from pathlib import Path

import pytest

from cli.command import Partibus
from cli.verbs.conftest import MakeQueue


@pytest.fixture
def sessions(make_queue: MakeQueue) -> str:
    return make_queue("--sessions")


def test_sessions_with_messages_or_state_are_listed(partibus: Partibus, sessions: str) -> None:
    assert partibus("session", "list", sessions).out.endswith(
        "has no sessions with messages or state.\n"
    )
    for number in range(3):
        partibus("send", sessions, "x", "--session-id", f"s{number}")
    partibus("session", "state", "set", sessions, "state-only", "x")
    expected = {"s0", "s1", "s2", "state-only"}
    assert set(partibus("session", "list", sessions).out.split()) == expected
    assert set(partibus("session", "list", sessions, "--json").json["sessions"]) == expected


def test_a_state_is_kept_shown_and_cleared(partibus: Partibus, sessions: str) -> None:
    state = ("session", "state")
    empty = partibus(*state, "get", sessions, "a")
    assert (empty.out, empty.err) == ("", f"partibus: session a of {sessions} has no state.\n")
    assert partibus(*state, "set", sessions, "a", '{"n": 1}').out.endswith(
        "has a state of 8 bytes\n"
    )
    assert partibus(*state, "get", sessions, "a").out == '{"n": 1}'
    assert partibus(*state, "get", sessions, "a", "--json").json["state"] == '{"n": 1}'
    partibus(*state, "clear", sessions, "a")
    assert partibus(*state, "get", sessions, "a", "--json").json["state"] is None


def test_a_state_of_bytes(partibus: Partibus, sessions: str, tmp_path: Path) -> None:
    (tmp_path / "state").write_bytes(b"\xff\x00")
    partibus("session", "state", "set", sessions, "a", "--file", str(tmp_path / "state"))
    shown = partibus("session", "state", "get", sessions, "a", "--json").json
    assert shown["state"] == {"$bytes": "/wA="}
    partibus("session", "state", "set", sessions, "a", stdin="from stdin")
    assert partibus("session", "state", "get", sessions, "a").out == "from stdin"


def test_a_queue_without_sessions_and_none_at_all(partibus: Partibus, queue: str) -> None:
    assert partibus("session", "list", queue, "--json").json["sessions"] == []
    assert "has no sessions" in partibus("session", "list", queue).out
    assert partibus.try_("session", "state", "get", queue, "a").code == 1
    assert partibus.try_("session", "list", "no-such-queue").code == 4
    assert partibus.try_("session", "state", "set", queue, "a", "x", "--file", "y").code == 2
