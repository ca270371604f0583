"""The stock JavaScript client with sessions: each test looks at one scenario's outcome.

All scenarios of js/sessions.mjs run side by side in one Node process, once for each shape of
queue.
"""

from collections.abc import Callable
from typing import Any

import pytest

from conformance.sessions.namespace import SHAPES, Queues
from support.javascript import scenario
from support.server import ServerProcess

pytestmark = pytest.mark.group("javascript")

SCRIPT = "../sessions/js/sessions.mjs"
SCENARIOS = {
    "certain": ["queue"],
    "next": ["queue"],
    "nextWaits": ["queue"],
    "nextInVain": ["queue"],
    "state": ["queue"],
    "lost": ["brief"],
    "kept": ["renewed"],
    "defer": ["queue"],
    "stream": ["queue"],
    "refusals": ["queue", "sessionless"],
}
Result = Callable[[str], Any]


@pytest.fixture(scope="module", params=SHAPES)
def outcomes(
    request: pytest.FixtureRequest, server: ServerProcess, queues: Queues
) -> dict[str, Any]:
    kinds = {
        "queue": request.param,
        "brief": f"brief-{request.param}",
        "renewed": f"renewed-{request.param}",
        "sessionless": "sessionless",
    }
    given = {
        name: {kind: queues.fresh(kinds[kind]) for kind in wanted}
        for name, wanted in SCENARIOS.items()
    }
    given["kept"]["brief"] = given["kept"].pop("renewed")
    found: dict[str, Any] = scenario(
        SCRIPT, "all", connection=server.connection_string, queues=given
    )
    return found


@pytest.fixture
def result(outcomes: dict[str, Any]) -> Result:
    def of(name: str) -> Any:
        assert "error" not in outcomes[name], outcomes[name]["error"]
        return outcomes[name]["result"]

    return of


@pytest.mark.rule("SES-3", "SES-5", "SES-7", "SES-9", "SES-10", "SES-14")
def test_a_certain_session(result: Result) -> None:
    assert result("certain") == {
        "id": "a",
        "second": "SessionCannotBeLocked",
        "bodies": [1, 2, 3],
        "counts": [1, 0, 0],
        "rest": [3],
        "restCount": 0,
        "isLong": True,
        "renewed": True,
    }


@pytest.mark.rule("SES-4", "SES-5", "SES-25")
def test_the_next_session(result: Result) -> None:
    assert result("next") == {"ids": ["one", "two"], "bodies": [1, 2]}
    assert result("nextWaits") == {"id": "late", "bodies": ["here"]}
    assert result("nextInVain") == "ServiceTimeout"


@pytest.mark.rule("SES-16", "SES-17")
def test_state(result: Result) -> None:
    assert result("state") == {
        "none": None,
        "state": {"step": 3},
        "kept": {"step": 3},
        "cleared": None,
    }


@pytest.mark.rule("SES-7", "SES-12", "SES-13")
def test_a_lost_session(result: Result) -> None:
    found = result("lost")
    assert set(found["codes"].values()) == {"SessionLockLost"}, found
    assert found["count"] == 1


@pytest.mark.rule("SES-7")
def test_a_session_that_the_client_renews_by_itself(result: Result) -> None:
    assert result("kept") == 0


@pytest.mark.rule("DEF-7", "PEK-3")
def test_deferral_and_peek(result: Result) -> None:
    assert result("defer") == {
        "shown": [["1", "deferred"], ["2", "active"]],
        "body": "1",
        "rest": ["2"],
    }


@pytest.mark.rule("SES-9")
def test_streaming(result: Result) -> None:
    assert result("stream") == [1, 2, 3]


@pytest.mark.rule("SES-1")
def test_refusals(result: Result) -> None:
    found = result("refusals")
    assert found["send"] == found["receive"] == "GeneralError"
    # The client takes every refusal that names no session for this.
    assert found["accept"] == "SessionCannotBeLocked"
