"""The generic JavaScript AMQP client rhea: each test runs one scenario of js/rhea.mjs."""

from typing import Any

import pytest

from support.javascript import failure, scenario
from support.namespace import ROOT_KEY, ROOT_POLICY
from support.server import ServerProcess

pytestmark = pytest.mark.group("javascript")

SCRIPT = "rhea.mjs"


def run(server: ServerProcess, name: str, queue: str, **given: object) -> Any:
    access = {"port": server.ready.amqp_port, "policy": ROOT_POLICY, "key": ROOT_KEY}
    return scenario(SCRIPT, name, queue=queue, **access, **given)


@pytest.mark.rule("SAS-9", "SEED-85")
def test_send_and_take(server: ServerProcess, queue: str) -> None:
    bodies = [f"message {number}" for number in range(300)]
    assert run(server, "sendAndTake", queue, bodies=bodies) == bodies


@pytest.mark.rule("SEED-91", "AMQ-3")
def test_pre_settled_sends_are_kept(server: ServerProcess, queue: str) -> None:
    bodies = [f"message {number}" for number in range(50)]
    assert run(server, "preSettled", queue, bodies=bodies) == bodies


@pytest.mark.rule("PRE-5")
def test_no_more_than_the_credit_is_delivered(server: ServerProcess, queue: str) -> None:
    assert run(server, "credit", queue) == [0, 1]


def test_drain_is_answered(server: ServerProcess, queue: str) -> None:
    assert run(server, "drain", queue) == {"bodies": ["one", "two"], "credit": 0}


@pytest.mark.rule("AMQ-2", "CON-27")
def test_released_does_not_count_and_modified_does(server: ServerProcess, queue: str) -> None:
    outcomes = ["released", "modified", "released", "modified", "accepted"]
    assert run(server, "outcomes", queue, outcomes=outcomes) == [0, 0, 1, 1, 2]


@pytest.mark.rule("ERR-1")
def test_a_missing_queue(server: ServerProcess) -> None:
    assert run(server, "missingQueue", "no-such-queue") == "amqp:not-found"


@pytest.mark.rule("SAS-9")
def test_a_wrong_key(server: ServerProcess) -> None:
    access = {"port": server.ready.amqp_port, "policy": ROOT_POLICY, "key": "wrong"}
    assert failure(SCRIPT, "connect", **access)
