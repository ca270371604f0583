"""Scheduled messages with the stock Python client: schedule, activation, cancel."""

import datetime

import pytest

pytest.importorskip("proton", reason="needs Qpid Proton, which is built with a C compiler")

from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import MessageNotFoundError, MessageSizeExceededError

from conformance.settlement.backstage import ACTIVE, SCHEDULED, Backstage, plain
from conformance.settlement.bus import Bus
from conformance.settlement.namespace import Queues
from conformance.settlement.steps import TICK, seconds, utc_now
from support.proton_client import SEQUENCE_NUMBER
from support.receiving import bodies, collect

pytestmark = pytest.mark.group("proton")

LATER = datetime.timedelta(hours=1)
UNKNOWN = 10_000


@pytest.mark.rule("SCH-1", "SCH-2", "SCH-4", "SCH-5", "SEQ-8", "DEF-3")
def test_a_scheduled_message_is_hidden_until_its_time_and_then_newly_numbered(
    bus: Bus, stage: Backstage, queue: str
) -> None:
    due = utc_now() + seconds(1.5)
    (number,) = bus.sender(queue).schedule_messages(ServiceBusMessage("due"), due)
    stage.send(queue, "at once")
    shown = stage.peek(queue)
    assert [(item.body, item.state) for item in shown] == [("due", SCHEDULED), ("at once", ACTIVE)]
    assert shown[0].number == number
    receiver = bus.receiver(queue)
    with pytest.raises(MessageNotFoundError):
        receiver.receive_deferred_messages(number)
    first, second = collect(receiver, 2)
    assert [plain(first.body) if first.body_type else None, str(second)] is not None
    assert str(second) == "due"
    assert second.sequence_number > first.sequence_number > number
    assert second.enqueued_time_utc >= due - TICK
    receiver.complete_message(first)
    receiver.complete_message(second)
    assert stage.peek(queue) == []
