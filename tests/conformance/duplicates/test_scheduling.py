"""Scheduled and immediate messages share one history of ids."""

import pytest
from azure.servicebus.exceptions import MessageNotFoundError

from conformance.duplicates.letters import letter, shown, shown_ids
from conformance.duplicates.namespace import Queues
from conformance.settlement.bus import Bus
from conformance.settlement.steps import seconds, until, utc_now

COUNTER_MASK = (1 << 48) - 1


@pytest.mark.rule("DUP-6", "SCH-9")
def test_what_was_sent_is_not_scheduled_again(bus: Bus, queue: str) -> None:
    sender = bus.sender(queue)
    sender.send_messages(letter("a"))
    later = utc_now() + seconds(3600)
    numbers = sender.schedule_messages([letter("b"), letter("a"), letter("c")], later)
    assert [numbers[0], numbers[2]] == [2, 3]
    assert shown_ids(bus, queue) == ["a", "b", "c"]
    assert numbers[1] not in {message.sequence_number for message in shown(bus, queue)}
    with pytest.raises(MessageNotFoundError):
        sender.cancel_scheduled_messages(numbers[1])
    sender.cancel_scheduled_messages([numbers[0], numbers[2]])
    assert shown_ids(bus, queue) == ["a"]


@pytest.mark.rule("DUP-6", "SCH-9")
def test_what_was_scheduled_is_not_sent_again(bus: Bus, queue: str) -> None:
    sender = bus.sender(queue)
    (number,) = sender.schedule_messages(letter("a", "scheduled"), utc_now() + seconds(3600))
    sender.send_messages(letter("a", "sent"))
    assert [str(message) for message in shown(bus, queue)] == ["scheduled"]
    sender.cancel_scheduled_messages(number)
    sender.send_messages(letter("a", "sent"))
    assert shown_ids(bus, queue) == []


@pytest.mark.rule("DUP-6", "SCH-9", "SCH-4")
def test_a_scheduled_message_becomes_active_in_spite_of_its_own_id(bus: Bus, queue: str) -> None:
    sender = bus.sender(queue)
    (number,) = sender.schedule_messages(letter("a"), utc_now() + seconds(1))

    def active() -> bool:
        return [m.sequence_number for m in shown(bus, queue)] == [number + 1]

    until("the message to become active", active)
    sender.send_messages([letter("a"), letter("b")])
    assert shown_ids(bus, queue) == ["a", "b"]


@pytest.mark.rule("DUP-6", "SCH-9", "SEED-35")
def test_in_a_partitioned_queue_both_ways_lead_to_the_same_partition(
    bus: Bus, queues: Queues
) -> None:
    queue = queues.fresh("parted")
    sender = bus.sender(queue)
    names = [f"order-{number}" for number in range(12)]
    sender.send_messages([letter(name) for name in names[:6]])
    later = utc_now() + seconds(3600)
    numbers = [sender.schedule_messages(letter(name), later)[0] for name in names]
    stored = {message.sequence_number for message in shown(bus, queue)}
    assert sorted(shown_ids(bus, queue)) == sorted(names)  # type: ignore[type-var]
    assert not set(numbers[:6]) & stored and set(numbers[6:]) <= stored
    assert {number & COUNTER_MASK for number in numbers[:6]} == {COUNTER_MASK}
