"""Batch delete, which the stable stock clients do not offer, over the management node."""

import datetime

import pytest

pytest.importorskip("proton", reason="needs Qpid Proton, which is built with a C compiler")

from proton import Delivery

from conformance.settlement.backstage import DEFERRED, SCHEDULED, Backstage, dead, text_message
from conformance.settlement.steps import utc_now
from support.proton.client import symbol

pytestmark = pytest.mark.group("proton")

COUNT_MAX = 4000  # of the profile that the server runs under


def future_ms() -> int:
    return int((utc_now() + datetime.timedelta(hours=1)).timestamp() * 1000)


@pytest.mark.rule("BAT-6", "AMQ-4")
def test_it_deletes_what_waits_and_nothing_else(stage: Backstage, queue: str) -> None:
    due = symbol("x-opt-scheduled-enqueue-time")
    stage.send(queue, "deferred", "locked", "one", "two")
    stage.send(queue, text_message("due", annotations={due: future_ms()}))
    receiver = stage.receiver(queue, credit=2)
    (_, delivery), _ = receiver.wait_for(2)
    delivery.local.undeliverable = True
    receiver.settle(delivery, Delivery.MODIFIED)
    reply = stage.management(queue).delete_batch(100, future_ms())
    assert (reply.status, reply.body) == (200, {"message-count": 2})
    assert [(item.body, item.state) for item in stage.peek(queue)] == [
        ("deferred", DEFERRED),
        ("locked", 0),
        ("due", SCHEDULED),
    ]


@pytest.mark.rule("BAT-6")
def test_purging_is_deleting_until_nothing_is_left(stage: Backstage, queue: str) -> None:
    stage.send(queue, *(str(number) for number in range(10)))
    node = stage.management(queue)
    counts = []
    while (reply := node.delete_batch(4, future_ms())).status == 200:
        counts.append(int(reply.body["message-count"]))
    assert reply.status == 204
    assert counts == [4, 4, 2]
    assert stage.peek(queue) == []


@pytest.mark.rule("BAT-6")
def test_it_spares_what_was_enqueued_later(stage: Backstage, queue: str) -> None:
    stage.send(queue, "old")
    (old_ms,) = stage.enqueued_ms(queue)
    while stage.enqueued_ms(queue)[-1] == old_ms:
        stage.send(queue, "new")
    times = stage.enqueued_ms(queue)
    node = stage.management(queue)
    assert node.delete_batch(100, old_ms).status == 204
    reply = node.delete_batch(100, times[-1])
    assert reply.body == {"message-count": len(times) - 1}
    assert stage.enqueued_ms(queue) == times[-1:]


@pytest.mark.rule("BAT-6", "DLQ-3")
def test_it_empties_a_dead_letter_queue(stage: Backstage, queue: str) -> None:
    stage.send(queue, "bad", "good")
    receiver = stage.receiver(queue, credit=1)
    ((_, delivery),) = receiver.wait_for(1)
    receiver.settle(delivery, Delivery.REJECTED)
    reply = stage.management(dead(queue)).delete_batch(100, future_ms())
    assert reply.body == {"message-count": 1}
    assert stage.peek(dead(queue)) == []
    assert stage.bodies(queue, 1) == ["good"]


@pytest.mark.rule("BAT-6", "ERR-14")
def test_the_count_has_a_limit(stage: Backstage, queue: str) -> None:
    stage.send(queue, "one")
    node = stage.management(queue)
    for count in (0, COUNT_MAX + 1):
        reply = node.delete_batch(count, future_ms())
        assert (reply.status, reply.condition) == (400, "com.microsoft:argument-error")
    assert stage.shown(queue) == ["one"]
    assert node.delete_batch(COUNT_MAX, future_ms()).body == {"message-count": 1}
