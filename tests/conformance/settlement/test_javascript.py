"""The stock JavaScript client around settlement: each test looks at one scenario's outcome.

All scenarios of js/settlement.mjs run side by side in one Node process, once for this module.
"""

from collections.abc import Callable
from typing import Any

import pytest

from conformance.settlement.namespace import Queues
from support.javascript import scenario
from support.server import ServerProcess

pytestmark = pytest.mark.group("javascript")

SCRIPT = "../settlement/js/settlement.mjs"
# The kinds of queue that each scenario takes.
SCENARIOS = {
    "schedule": ["plain"],
    "scheduleByProperty": ["plain"],
    "longLife": ["plain"],
    "timeToLive": ["mourning"],
    "defer": ["plain"],
    "deferAndDelete": ["plain"],
    "settleDeferred": ["plain"],
    "peek": ["plain"],
    "peekLimits": ["plain"],
    "peekWithoutBody": ["plain"],
    "deadLetter": ["plain"],
    "renew": ["renewed"],
    "lostLocks": ["brief"],
    "settleTwice": ["plain"],
    "settleDeleted": ["plain"],
    "settleAfterClose": ["plain"],
    "refusals": ["narrow", "tiny", "disabled", "plain"],
    "bodies": ["plain"],
}


@pytest.fixture(scope="module")
def outcomes(server: ServerProcess, queues: Queues) -> dict[str, Any]:
    given = {
        name: {kind: queues.fresh(kind) for kind in kinds} for name, kinds in SCENARIOS.items()
    }
    found: dict[str, Any] = scenario(
        SCRIPT, "all", connection=server.connection_string, queues=given
    )
    return found


@pytest.fixture
def result(outcomes: dict[str, Any]) -> Callable[[str], Any]:
    def of(name: str) -> Any:
        assert "error" not in outcomes[name], outcomes[name]["error"]
        return outcomes[name]["result"]

    return of


Result = Callable[[str], Any]


@pytest.mark.rule("SCH-1", "SCH-2", "SCH-3", "SCH-4", "SEQ-8", "ERR-7")
def test_schedule_and_cancel(result: Result) -> None:
    assert result("schedule") == {
        "shown": [["kept", "scheduled"]],
        "again": "MessageNotFound",
        "body": "kept",
        "hasNewNumber": True,
        "isInTime": True,
    }


@pytest.mark.rule("SCH-1", "SCH-4")
def test_schedule_by_property(result: Result) -> None:
    assert result("scheduleByProperty") == {
        "states": ["scheduled", "scheduled"],
        "body": "due",
        "grew": 1,
    }


@pytest.mark.rule("TTL-1", "TTL-6", "TTL-7")
def test_time_to_live(result: Result) -> None:
    assert result("timeToLive") == {"reason": "TTLExpiredException", "life": 1000}


@pytest.mark.rule("TTL-1")
def test_a_life_beyond_what_a_header_holds(result: Result) -> None:
    assert result("longLife") == [[0, 0], [0, 0]]


@pytest.mark.rule("DEF-2", "DEF-3", "DEF-4", "DEF-5", "LCK-10", "DLV-3", "SEED-102")
def test_deferral_with_properties_to_modify(result: Result) -> None:
    assert result("defer") == {
        "state": "deferred",
        "locked": "MessageNotFound",
        "gone": "MessageNotFound",
        "properties": {"kept": 1, "changed": 3, "added": "yes"},
        "counts": [0, 1, 2],
        "states": ["active", "deferred", "deferred"],
    }


@pytest.mark.rule("DEF-2")
def test_deferred_messages_are_received_and_deleted(result: Result) -> None:
    assert result("deferAndDelete") == {"body": "set aside", "left": []}


@pytest.mark.rule("DEF-5", "LCK-3", "DLQ-5")
def test_deferred_messages_are_renewed_and_dead_lettered(result: Result) -> None:
    assert result("settleDeferred") == {"isRenewed": True, "reason": "enough", "host": "h1"}


@pytest.mark.rule("PEK-1", "PEK-4", "PEK-5")
def test_peek(result: Result) -> None:
    assert result("peek") == {
        "calls": [[0, 1], [2, 3], [4], []],
        "from": [3, 4],
        "token": None,
        "counts": [0, 0, 0, 0, 0],
    }


@pytest.mark.rule("PEK-5")
def test_the_limit_of_peek(result: Result) -> None:
    assert result("peekLimits") == [250, 10]


@pytest.mark.rule("SEED-101", "DLQ-2", "DLQ-3", "DLQ-5", "LCK-10", "PEK-3", "ERR-13")
def test_dead_letters(result: Result) -> None:
    found = result("deadLetter")
    assert (found["shown"], found["reason"]) == (1, "own")
    assert found["properties"] == {
        "tries": 2,
        "host": "h1",
        "DeadLetterReason": "own",
        "DeadLetterErrorDescription": "words",
    }
    assert (found["again"], found["sent"]) == ("GeneralError", "GeneralError")
    assert found["transfer"] == []


@pytest.mark.rule("LCK-3", "LCK-4", "SEED-95")
def test_renewal_by_hand_and_by_itself(result: Result) -> None:
    assert result("renew") == {"isLonger": True, "stolen": 0, "left": 0}


@pytest.mark.rule("SEED-103", "SEED-108", "LCK-5", "ERR-4")
def test_every_operation_with_a_lost_lock(result: Result) -> None:
    found = result("lostLocks")
    assert found["counts"] == [1] * 5
    assert set(found["codes"]) == {
        "completeMessage",
        "abandonMessage",
        "deferMessage",
        "deadLetterMessage",
        "renewMessageLock",
    }
    assert set(found["codes"].values()) == {"MessageLockLost"}


@pytest.mark.rule("LCK-9")
def test_settling_twice(result: Result) -> None:
    assert "already settled" in result("settleTwice")["second"]


@pytest.mark.rule("LCK-8")
def test_what_was_received_and_deleted_cannot_be_settled(result: Result) -> None:
    words = result("settleDeleted")
    assert len(words) == 5
    assert all("receiveAndDelete" in each for each in words), words


@pytest.mark.rule("LCK-6", "LCK-7")
def test_settling_by_token_after_the_link_is_gone(result: Result) -> None:
    assert result("settleAfterClose") == {"left": 0}


@pytest.mark.rule("ERR-1", "ERR-3", "ERR-7", "ERR-8", "ERR-9", "SEED-84")
def test_refusals(result: Result) -> None:
    assert result("refusals") == {
        "missing": "MessagingEntityNotFound",
        "missingReceiver": "MessagingEntityNotFound",
        "disabled": "MessagingEntityDisabled",
        "disabledReceiver": "MessagingEntityDisabled",
        "large": "MessageSizeExceeded",
        "full": "QuotaExceeded",
        "number": "MessageNotFound",
    }


@pytest.mark.rule("MSG-1")
def test_bodies_of_every_kind(result: Result) -> None:
    value, sequence, data, none = result("bodies")
    assert value == ["value", {"a": [1, "two", None]}]
    assert sequence == ["sequence", [[1, "two"], [3]]]
    assert data == ["data", [0, 1, 255]]
    assert none[0] in ("data", "value")


@pytest.mark.rule("PEK-11")
def test_peek_without_the_body(result: Result) -> None:
    assert result("peekWithoutBody") == {
        "hasBody": False,
        "subject": "s",
        "properties": {"kind": "large"},
        "length": 1000,
    }
