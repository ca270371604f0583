"""Peek with the stock Python client: copies, the cursor, the states, the limits."""

import pytest

pytest.importorskip("proton", reason="needs Qpid Proton, which is built with a C compiler")

from azure.servicebus import ServiceBusMessage, ServiceBusMessageState
from proton import Message

from conformance.settlement.backstage import Backstage, dead
from conformance.settlement.bus import Bus
from conformance.settlement.steps import seconds, utc_now
from support.receiving import bodies, collect

pytestmark = pytest.mark.group("proton")

COUNT_MAX = 250
BYTES_MAX = 256 * 1024


@pytest.mark.rule("PEK-1", "SEED-12")
def test_peek_shows_copies_and_touches_nothing(bus: Bus, stage: Backstage, queue: str) -> None:
    stage.send(queue, "one", "two")
    receiver = bus.receiver(queue)
    for _ in range(3):
        (shown,) = receiver.peek_messages(sequence_number=1)
        assert str(shown) == "one"
        assert shown.lock_token is None
        assert shown.locked_until_utc is None
        assert shown.state == ServiceBusMessageState.ACTIVE
        with pytest.raises(ValueError, match="peeked"):
            receiver.complete_message(shown)
    first, second = stage.take(queue, 2)
    assert (bytes(first.body), bytes(second.body)) == (b"one", b"two")
    assert first.delivery_count == 0, "peeking is no delivery"


@pytest.mark.rule("PEK-2", "DEF-4", "SCH-2", "MSG-2")
def test_peek_shows_every_state_but_dead_letters(bus: Bus, stage: Backstage, queue: str) -> None:
    stage.send(queue, "dead", "deferred", "locked", "active")
    receiver = bus.receiver(queue)
    bad, aside, _ = collect(receiver, 3)
    receiver.dead_letter_message(bad)
    receiver.defer_message(aside)
    bus.sender(queue).schedule_messages(ServiceBusMessage("due"), utc_now() + seconds(3600))
    shown = receiver.peek_messages(max_message_count=10, sequence_number=1)
    assert [(str(message), message.state) for message in shown] == [
        ("deferred", ServiceBusMessageState.DEFERRED),
        ("locked", ServiceBusMessageState.ACTIVE),
        ("active", ServiceBusMessageState.ACTIVE),
        ("due", ServiceBusMessageState.SCHEDULED),
    ]
    numbers = [message.sequence_number for message in shown]
    assert numbers == sorted(numbers)
    letters = bus.dead_letters(queue)
    assert bodies(letters.peek_messages(max_message_count=10)) == ["dead"]


@pytest.mark.rule("PEK-4")
def test_the_cursor_belongs_to_the_receiver(bus: Bus, stage: Backstage, queue: str) -> None:
    stage.send(queue, *(str(number) for number in range(6)))
    first, other = bus.receiver(queue), bus.receiver(queue)
    assert bodies(first.peek_messages(max_message_count=2)) == ["0", "1"]
    assert bodies(first.peek_messages(max_message_count=3)) == ["2", "3", "4"]
    assert bodies(other.peek_messages(max_message_count=1)) == ["0"]
    assert bodies(first.peek_messages(max_message_count=3)) == ["5"]
    assert first.peek_messages(max_message_count=3) == []
    (again, _) = first.peek_messages(max_message_count=2, sequence_number=1)
    assert str(again) == "0"
    from_third = again.sequence_number + 2
    shown = first.peek_messages(max_message_count=10, sequence_number=from_third)
    assert bodies(shown) == ["2", "3", "4", "5"]
    assert first.peek_messages(max_message_count=10, sequence_number=from_third + 100) == []


@pytest.mark.rule("PEK-5", "SEED-71", "SEED-73", "QTA-16")
def test_one_call_shows_so_many_messages_at_most(bus: Bus, stage: Backstage, queue: str) -> None:
    texts = [str(number) for number in range(COUNT_MAX + 10)]
    bus.sender(queue).send_messages([ServiceBusMessage(text) for text in texts])
    receiver = bus.receiver(queue)
    assert bodies(receiver.peek_messages(max_message_count=1000)) == texts[:COUNT_MAX]
    assert bodies(receiver.peek_messages(max_message_count=1000)) == texts[COUNT_MAX:]


@pytest.mark.rule("PEK-7", "SEED-71", "SEED-73")
def test_one_call_shows_so_many_bytes_at_most(bus: Bus, stage: Backstage, queue: str) -> None:
    sizes = [100_000, 100_000, 100_000, 500_000, 10]
    stage.send(queue, *(Message(body=b"x" * size, inferred=True) for size in sizes))
    receiver = bus.receiver(queue)
    calls: list[list[int]] = []
    while shown := receiver.peek_messages(max_message_count=10):
        calls.append([len(b"".join(message.body)) for message in shown])
    # A message that is larger than the limit is shown alone, or nothing after it ever were.
    assert calls == [[100_000, 100_000], [100_000], [500_000], [10]]
    assert all(sum(call) <= BYTES_MAX for call in calls if len(call) > 1)


@pytest.mark.rule("PEK-3", "DLQ-3")
def test_dead_letters_are_peeked(bus: Bus, stage: Backstage, queue: str) -> None:
    stage.send(queue, "bad", "worse")
    receiver = bus.receiver(queue)
    for message in collect(receiver, 2):
        receiver.dead_letter_message(message, reason=f"{message}!")
    letters = bus.dead_letters(queue)
    shown = letters.peek_messages(max_message_count=1)
    shown += letters.peek_messages(max_message_count=10)
    assert [(str(m), m.dead_letter_reason) for m in shown] == [("bad", "bad!"), ("worse", "worse!")]
    assert receiver.peek_messages(sequence_number=1) == []
    letters.complete_message(collect(letters, 2)[0])


@pytest.mark.rule("PEK-6", "AMQ-4")
def test_the_answer_is_200_with_messages_and_204_without(stage: Backstage, queue: str) -> None:
    node = stage.management(queue)
    assert node.peek(10).status == 204
    stage.send(queue, "one", "two")
    reply = node.peek(1)
    assert (reply.status, len(reply.messages())) == (200, 1)
    assert node.peek(10, sequence_number=10_000).status == 204
    assert stage.management(dead(queue)).peek(10).status == 204


@pytest.mark.rule("ERR-14")
@pytest.mark.parametrize("count", [0, -1])
def test_a_count_below_one_is_refused(stage: Backstage, queue: str, count: int) -> None:
    reply = stage.management(queue).peek(count)
    assert (reply.status, reply.condition) == (400, "com.microsoft:argument-error")
