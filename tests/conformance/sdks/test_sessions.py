"""Sessions, by the clients of other languages."""

import pytest

from conformance.sdks.conftest import Fresh
from conformance.sdks.drivers import Sdk
from conformance.sdks.operations import operation

# What the clients call a session that another receiver holds, and that there is no session.
HELD = {
    "Go": "com.microsoft:session-cannot-be-locked",
    "Java": "SESSION_CANNOT_BE_LOCKED",
    "Java async": "SESSION_CANNOT_BE_LOCKED",
    "Rust": "com.microsoft:session-cannot-be-locked",
}
NONE = {"Go": "timeout", "Java": "TIMEOUT"}


@pytest.fixture
def sessions(fresh: Fresh) -> str:
    return fresh(requires_session=True)


@operation("session by name", "Go", "Java", "Java async", "Rust")
@pytest.mark.rule("SES-1", "SES-2")
def test_a_session_by_its_name(sdk: Sdk, sessions: str) -> None:
    result = sdk.run("namedSession", queue=sessions)
    # Go's client names no session when it peeks, which shows the messages of all of them (PEK-10).
    left = 1 if sdk.client == "Go" else 0
    assert result == {"session": "a", "bodies": ["a1", "a2"], "left": left}


@operation("next available session", "Go", "Java", "Java async", "Java processor", "Rust")
@pytest.mark.rule("SES-3")
def test_the_next_session(sdk: Sdk, sessions: str) -> None:
    assert sdk.run("nextSession", queue=sessions) == {"a": ["a1"], "b": ["b1"]}


@operation("session state", "Go", "Java", "Java async", "Rust")
def test_the_state_of_a_session(sdk: Sdk, sessions: str) -> None:
    # Rust's client cannot read a state that was never set, so it begins with the second reading.
    states = ["half way", ""] if sdk.client == "Rust" else ["", "half way", ""]
    assert sdk.run("sessionState", queue=sessions) == states


@operation("renew a session lock", "Go", "Java", "Java async", "Rust")
def test_the_lock_of_a_session_is_renewed(sdk: Sdk, sessions: str) -> None:
    assert sdk.run("renewSession", queue=sessions) == {"later": True}


@operation("settle within a session", "Go", "Java", "Java async", "Rust")
def test_settlements_within_a_session(sdk: Sdk, sessions: str) -> None:
    assert sdk.run("sessionSettlement", queue=sessions) == ["again", "dead", "later"]


@operation("held session reported", "Go", "Java", "Java async", "Rust")
def test_a_session_that_another_receiver_holds(sdk: Sdk, sessions: str) -> None:
    assert sdk.failure("heldSession", queue=sessions) == HELD[sdk.client]


@operation("no session reported", "Go", "Java")
def test_there_is_no_session(sdk: Sdk, sessions: str) -> None:
    """Java's asynchronous client waits without end; Rust's cannot say how long it waits."""
    assert sdk.failure("noSession", queue=sessions, seconds=2) == NONE[sdk.client]


@operation("list sessions", "Go")
def test_the_sessions_are_listed_page_by_page(sdk: Sdk, sessions: str) -> None:
    """The client asks for pages of 100."""
    assert sdk.run("listSessions", queue=sessions, count=150) == sorted(map(str, range(150)))
