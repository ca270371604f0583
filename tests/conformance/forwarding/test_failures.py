"""Destinations that do not take a message: it becomes a dead letter of the source."""

import pytest
from azure.servicebus import ServiceBusMessage

from conformance.partitioning.operator import Operator
from conformance.settlement.bus import RECEIVE_AND_DELETE, TRANSFER_DEAD_LETTER, Bus
from support.receiving import bodies, collect


@pytest.mark.rule("FWD-7", "TDQ-2", "TDQ-3", "CON-20")
def test_a_disabled_destination(bus: Bus, operator: Operator) -> None:
    with bus.sender("disabled-in") as sender:
        sender.send_messages([ServiceBusMessage(f"m{n}") for n in range(3)])
    with bus.dead_letters("disabled-in") as receiver:
        got = collect(receiver, 3)
        assert bodies(got) == ["m0", "m1", "m2"]
        assert {message.dead_letter_reason for message in got} == {"EntityDisabled"}
        assert "disabled-out" in (got[0].dead_letter_error_description or "")
        # It stays there until it is handled, under its own number.
        assert [message.sequence_number for message in got] == [1, 2, 3]
    with bus.receiver("disabled-in", sub_queue=TRANSFER_DEAD_LETTER) as receiver:
        assert receiver.receive_messages(max_wait_time=1) == []
    assert operator.entity("disabled-in")["totals"]["transfer"] == 0


@pytest.mark.rule("FWD-7")
def test_a_full_destination(bus: Bus, operator: Operator) -> None:
    block = b"x" * 100_000
    with bus.sender("full-in") as sender:
        for _ in range(14):
            sender.send_messages(ServiceBusMessage(block))
        # Ten fit into a megabyte; a smaller one that comes later still has room.
        sender.send_messages(ServiceBusMessage("small"))
    with bus.dead_letters("full-in", receive_mode=RECEIVE_AND_DELETE) as receiver:
        got = collect(receiver, 4)
    assert {message.dead_letter_reason for message in got} == {"QuotaExceeded"}
    assert [message.sequence_number for message in got] == [11, 12, 13, 14]
    with bus.receiver("full-out", receive_mode=RECEIVE_AND_DELETE) as receiver:
        assert str(collect(receiver, 11)[-1]) == "small"
        with bus.sender("full-in") as sender:
            sender.send_messages(ServiceBusMessage(block))
        assert len(str(collect(receiver, 1)[0])) == len(block)
    assert operator.entity("full-in")["totals"]["dead_letter"] == 0


@pytest.mark.rule("FWD-7", "DLQ-6")
def test_a_message_too_large_for_the_destination(bus: Bus) -> None:
    with bus.sender("narrow-in") as sender:
        sender.send_messages(ServiceBusMessage(b"x" * 20_000))
        sender.send_messages(ServiceBusMessage("small"))
    with bus.receiver("narrow-out") as receiver:
        assert bodies(collect(receiver, 1)) == ["small"]
    with bus.dead_letters("narrow-in") as receiver:
        (message,) = collect(receiver, 1)
    assert message.dead_letter_reason == "MessageTooLarge"


@pytest.mark.rule("FWD-4", "DLQ-6")
def test_a_session_destination(bus: Bus) -> None:
    with bus.sender("session-in") as sender:
        sender.send_messages(ServiceBusMessage("in one", session_id="s"))
        sender.send_messages(ServiceBusMessage("in none"))
        sender.send_messages(ServiceBusMessage("in one too", session_id="s"))
    with bus.receiver("session-out", session_id="s") as receiver:
        assert bodies(collect(receiver, 2)) == ["in one", "in one too"]
    with bus.dead_letters("session-in") as receiver:
        (message,) = collect(receiver, 1)
    assert str(message) == "in none"
    assert message.dead_letter_reason == "Session ID is null"
