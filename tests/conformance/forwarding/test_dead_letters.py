"""Dead letters that go on to another queue, with the stock client."""

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusReceivedMessage

from conformance.partitioning.operator import Operator
from conformance.settlement.bus import Bus
from conformance.settlement.steps import seconds, text_properties, until
from support.receiving import bodies, collect


def reasons(message: ServiceBusReceivedMessage) -> tuple[str | None, str | None, str | None]:
    return (
        message.dead_letter_reason,
        message.dead_letter_error_description,
        message.dead_letter_source,
    )


@pytest.mark.rule("FWD-5", "DLQ-8", "FWD-9")
def test_a_dead_letter_of_a_client_goes_on_with_its_reason(bus: Bus, operator: Operator) -> None:
    with bus.sender("asked") as sender, bus.receiver("asked") as receiver:
        sender.send_messages(
            [
                ServiceBusMessage("stays"),
                ServiceBusMessage("goes", application_properties={"mine": 1}),
            ]
        )
        _, goes = collect(receiver, 2)
        receiver.dead_letter_message(goes, reason="spoilt", error_description="it smells")
    with bus.receiver("asked-grave") as receiver:
        (message,) = collect(receiver, 1)
    assert str(message) == "goes"
    assert reasons(message) == ("spoilt", "it smells", "asked")
    assert text_properties(message)["mine"] == 1
    assert (message.delivery_count, message.enqueued_sequence_number) == (0, 2)
    until(
        "it to have gone",
        lambda: operator.entity("asked")["totals"]["transfer"] == 0,
    )
    assert operator.entity("asked")["totals"]["dead_letter"] == 0


@pytest.mark.rule("FWD-5", "DLQ-8")
def test_a_message_delivered_too_often_goes_on(bus: Bus) -> None:
    with bus.sender("worn") as sender, bus.receiver("worn") as receiver:
        sender.send_messages(ServiceBusMessage("worn out"))
        for _ in range(2):
            (message,) = collect(receiver, 1)
            receiver.abandon_message(message)
    with bus.receiver("worn-grave") as receiver:
        (message,) = collect(receiver, 1)
    reason, _, source = reasons(message)
    assert (reason, source, message.delivery_count) == ("MaxDeliveryCountExceeded", "worn", 0)


@pytest.mark.rule("FWD-12", "DLQ-8")
def test_an_expired_message_keeps_its_short_time_to_live(bus: Bus) -> None:
    with bus.sender("expired") as sender:
        sender.send_messages(ServiceBusMessage("brief", time_to_live=seconds(2)))
    with bus.receiver("expired-grave") as receiver:
        (message,) = collect(receiver, 1)
        receiver.abandon_message(message)
    assert reasons(message)[0] == "TTLExpiredException"
    assert reasons(message)[2] == "expired"
    assert message.time_to_live == seconds(2)
    with bus.dead_letters("expired-grave") as receiver:
        (message,) = collect(receiver, 1)
    assert str(message) == "brief"


@pytest.mark.rule("FWD-4", "FWD-5")
def test_the_dead_letters_of_a_session_queue(bus: Bus) -> None:
    with bus.sender("session-asked") as sender:
        sender.send_messages([ServiceBusMessage(f"m{n}", session_id="s") for n in range(3)])
    with bus.receiver("session-asked", session_id="s") as receiver:
        messages = collect(receiver, 3)
        receiver.dead_letter_message(messages[1], reason="odd")
        receiver.complete_message(messages[0])
        receiver.complete_message(messages[2])
    with bus.receiver("session-grave") as receiver:
        (message,) = collect(receiver, 1)
    assert (str(message), message.session_id) == ("m1", "s")
    assert reasons(message)[2] == "session-asked"


@pytest.mark.rule("FWD-5", "SEED-54")
def test_the_dead_letters_of_a_partitioned_queue(bus: Bus) -> None:
    with bus.sender("parted-asked") as sender, bus.receiver("parted-asked") as receiver:
        for n in range(8):
            sender.send_messages(ServiceBusMessage(f"m{n}", partition_key=f"k{n}"))
        for message in collect(receiver, 8):
            receiver.dead_letter_message(message, reason="all")
    with bus.receiver("parted-grave") as receiver:
        got = collect(receiver, 8)
    assert sorted(bodies(got)) == [f"m{n}" for n in range(8)]
    assert {message.dead_letter_source for message in got} == {"parted-asked"}


@pytest.mark.rule("FWD-5", "FWD-7")
def test_a_dead_letter_that_cannot_go_on_stays(bus: Bus, operator: Operator) -> None:
    with bus.sender("shut-asked") as sender, bus.receiver("shut-asked") as receiver:
        sender.send_messages(ServiceBusMessage("dead"))
        (message,) = collect(receiver, 1)
        receiver.dead_letter_message(message, reason="first reason")
    with bus.dead_letters("shut-asked") as receiver:
        (message,) = collect(receiver, 1)
        receiver.abandon_message(message)
    assert reasons(message)[0] == "EntityDisabled"
    totals = operator.entity("shut-asked")["totals"]
    assert (totals["dead_letter"], totals["transfer"]) == (1, 0)


@pytest.mark.rule("FWD-5", "FWD-7")
def test_what_cannot_be_forwarded_is_a_dead_letter_like_any_other(bus: Bus) -> None:
    with bus.sender("both") as sender:
        sender.send_messages(ServiceBusMessage("rejected"))
    with bus.receiver("both-grave") as receiver:
        (message,) = collect(receiver, 1)
    assert str(message) == "rejected"
    assert (reasons(message)[0], reasons(message)[2]) == ("EntityDisabled", "both")


@pytest.mark.rule("FWD-6")
def test_a_circle_ends_by_the_count_of_hops(bus: Bus) -> None:
    with bus.sender("round-0") as sender:
        sender.send_messages(ServiceBusMessage("round and round"))
    for hop in range(5):
        with bus.receiver(f"round-{hop % 2}") as receiver:
            (message,) = collect(receiver, 1)
            receiver.abandon_message(message)
    with bus.dead_letters("round-0") as receiver:
        (message,) = collect(receiver, 1)
    assert message.dead_letter_reason == "MaxTransferHopCountExceeded"
    assert message.dead_letter_source == "round-1"
