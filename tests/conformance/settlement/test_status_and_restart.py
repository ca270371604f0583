"""What a restart leaves and takes: states, numbers and reasons stay, locks do not.

Each test has a server of its own, which it stops and starts again, once with a changed file.
"""

import uuid
from pathlib import Path

import pytest

pytest.importorskip("proton", reason="needs Qpid Proton, which is built with a C compiler")

from proton import Delivery, LinkException

from conformance.settlement.backstage import (
    ACTIVE,
    DEFERRED,
    SCHEDULED,
    Backstage,
    dead,
    text_message,
)
from conformance.settlement.namespace import write_queues
from conformance.settlement.steps import seconds, utc_now
from support.proton.client import LOCK_TOKEN, symbol
from support.server import ServerProcess

pytestmark = pytest.mark.group("proton")

DUE = symbol("x-opt-scheduled-enqueue-time")
LOCK_LOST = "com.microsoft:message-lock-lost"


def fill(stage: Backstage, queue: str) -> uuid.UUID:
    """A deferred, a dead, an abandoned, a locked and a scheduled message; the lock's token."""
    stage.send(queue, "deferred", "dead", "abandoned", "locked")
    later_ms = int((utc_now() + seconds(3600)).timestamp() * 1000)
    stage.send(queue, text_message("due", annotations={DUE: later_ms}))
    receiver = stage.receiver(queue, credit=4)
    deferred, letter, abandoned, locked = receiver.wait_for(4)
    deferred[1].local.undeliverable = True
    receiver.settle(deferred[1], Delivery.MODIFIED)
    receiver.settle(letter[1], Delivery.REJECTED)
    receiver.settle(abandoned[1], Delivery.MODIFIED)
    return uuid.UUID(bytes=locked[0].instructions[LOCK_TOKEN].bytes)


def states(stage: Backstage, queue: str) -> list[tuple[object, int, int]]:
    return [(item.body, item.state, item.number) for item in stage.peek(queue)]


@pytest.mark.rule("SEED-107", "LCK-5", "SEED-103")
def test_a_restart_takes_the_locks_and_leaves_the_rest(tmp_path: Path) -> None:
    config = write_queues(tmp_path / "q.toml", {"q": {}})
    with ServerProcess(tmp_path, config) as server:
        with Backstage(server) as stage:
            lost = fill(stage, "q")
            before = states(stage, "q")
        server.restart()
        with Backstage(server) as stage:
            assert states(stage, "q") == before
            assert [(body, state) for body, state, _ in before] == [
                ("deferred", DEFERRED),
                ("abandoned", ACTIVE),
                ("locked", ACTIVE),
                ("due", SCHEDULED),
            ]
            node = stage.management("q")
            assert node.settle("completed", lost).condition == LOCK_LOST
            assert node.renew(lost).condition == LOCK_LOST
            messages = stage.take("q", 2)
            assert [bytes(message.body) for message in messages] == [b"abandoned", b"locked"]
            assert messages[0].delivery_count == 1, "counts are kept"
            assert len(stage.take_dead("q", 1)) == 1
            (number,) = [number for body, _, number in before if body == "deferred"]
            assert node.receive_deferred(number, deletes=True).status == 200


@pytest.mark.rule("SCH-11", "STS-2", "STS-5")
def test_a_queue_that_was_switched_off_keeps_its_messages(tmp_path: Path) -> None:
    config = write_queues(tmp_path / "q.toml", {"sends": {}, "receives": {}})
    with ServerProcess(tmp_path, config) as server:
        with Backstage(server) as stage:
            for queue in ("sends", "receives"):
                fill(stage, queue)
        server.stop()
        write_queues(
            config,
            {"sends": {"status": '"SendDisabled"'}, "receives": {"status": '"ReceiveDisabled"'}},
        )
        server.start()
        with Backstage(server) as stage:
            with pytest.raises(LinkException, match=r"com\.microsoft:entity-disabled"):
                stage.sender("sends")
            (number,) = [n for _, state, n in states(stage, "sends") if state == SCHEDULED]
            assert stage.management("sends").cancel_scheduled(number).status == 200
            assert [body for body, _, _ in states(stage, "sends")] == [
                "deferred",
                "abandoned",
                "locked",
            ]
            assert stage.shown(dead("sends")) == ["dead"]
            with pytest.raises(LinkException, match=r"com\.microsoft:entity-disabled"):
                stage.receiver("receives")
            stage.send("receives", "one more")
