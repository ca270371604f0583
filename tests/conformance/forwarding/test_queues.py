"""From queue to queue with the stock client: what a forwarded message is, and what it keeps."""

import datetime

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient as AsyncServiceBusClient
from azure.servicebus.exceptions import ServiceBusError

from conformance.partitioning.operator import Operator
from conformance.settlement.bus import RECEIVE_AND_DELETE, Bus
from conformance.settlement.steps import seconds, text_properties, until, utc_now
from support.json_admin import JsonAdmin
from support.receiving import WAIT_SECONDS_MAX, bodies, collect
from support.server import ServerProcess


@pytest.mark.rule("FWD-1", "FWD-8", "SEED-55")
def test_what_is_sent_to_the_source_is_received_from_the_destination(bus: Bus) -> None:
    with bus.sender("plain-in") as sender, bus.sender("plain-out") as direct:
        sender.send_messages([ServiceBusMessage(f"m{n}") for n in range(20)])
        sender.send_messages(ServiceBusMessage("last"))
        direct.send_messages(ServiceBusMessage("direct"))
    with bus.receiver("plain-out") as receiver:
        got = bodies(collect(receiver, 22))
    assert [text for text in got if text != "direct"] == [*(f"m{n}" for n in range(20)), "last"]
    assert "direct" in got


@pytest.mark.rule("FWD-1")
def test_a_forwarding_queue_cannot_be_received_from(bus: Bus) -> None:
    with pytest.raises(ServiceBusError, match="auto-forwarding enabled") as refused:
        bus.receiver("closed-in", max_wait_time=1).receive_messages()
    assert "amqp:not-allowed" in str(refused.value)
    with bus.dead_letters("closed-in") as dead_letters:
        assert dead_letters.receive_messages(max_wait_time=1) == []


@pytest.mark.rule("FWD-2")
def test_a_destination_may_be_given_as_a_full_address(bus: Bus) -> None:
    with bus.sender("address-in") as sender:
        sender.send_messages(ServiceBusMessage("far"))
    with bus.receiver("address-out") as receiver:
        assert bodies(collect(receiver, 1)) == ["far"]


@pytest.mark.rule("FWD-9", "SEQ-8")
def test_what_a_forwarded_message_keeps_and_what_is_new(bus: Bus) -> None:
    begun = utc_now()
    with bus.sender("kept-in") as sender, bus.sender("kept-out") as direct:
        direct.send_messages([ServiceBusMessage("before") for _ in range(3)])
        message = ServiceBusMessage(
            b"body",
            message_id="id-1",
            subject="subject",
            correlation_id="correlation",
            content_type="text/plain",
            reply_to="there",
            to="here",
            partition_key="key",
            application_properties={"number": 7, "text": "word"},
        )
        sender.send_messages([ServiceBusMessage("first"), message])
    with bus.receiver("kept-out", receive_mode=RECEIVE_AND_DELETE) as receiver:
        got = collect(receiver, 5)
    (kept,) = [one for one in got if one.message_id == "id-1"]
    assert bytes(b"".join(kept.body)) == b"body"
    assert (kept.subject, kept.correlation_id, kept.content_type) == (
        "subject",
        "correlation",
        "text/plain",
    )
    assert (kept.reply_to, kept.to, kept.partition_key) == ("there", "here", "key")
    assert text_properties(kept) == {"number": 7, "text": "word"}
    assert kept.delivery_count == 0
    # A new number there, in the order of arrival; the first one is remembered.
    assert kept.sequence_number == max(one.sequence_number or 0 for one in got)
    assert kept.enqueued_sequence_number == 2
    assert {one.enqueued_sequence_number for one in got if str(one) == "before"} == {None}
    assert kept.enqueued_time_utc is not None
    enqueued = kept.enqueued_time_utc.replace(tzinfo=datetime.UTC)
    assert begun - seconds(1) <= enqueued <= utc_now()


@pytest.mark.rule("FWD-12")
def test_time_to_live_is_not_observed_in_the_source_and_starts_anew(
    bus: Bus, operator: Operator
) -> None:
    shown = operator.entity("timed-in")["properties"]
    assert shown["default_message_time_to_live"] == "PT1S"
    with bus.sender("timed-in") as sender:
        sender.send_messages(ServiceBusMessage("short", time_to_live=seconds(60)))
        sender.send_messages(ServiceBusMessage("none"))
    with bus.receiver("timed-out") as receiver:
        short, none = collect(receiver, 2)
    assert short.time_to_live == seconds(60)
    assert short.expires_at_utc == short.enqueued_time_utc + seconds(60)
    assert none.time_to_live is None or none.time_to_live > seconds(60 * 60 * 24)


@pytest.mark.rule("FWD-12")
def test_the_destinations_ceiling_holds(bus: Bus) -> None:
    with bus.sender("capped-in") as sender:
        sender.send_messages(ServiceBusMessage("long", time_to_live=seconds(3600)))
    with bus.receiver("capped-out") as receiver:
        (message,) = collect(receiver, 1)
    assert message.time_to_live == seconds(30)


@pytest.mark.rule("FWD-9", "SEQ-8")
def test_a_scheduled_message_goes_on_when_it_is_due(bus: Bus, operator: Operator) -> None:
    due = utc_now() + seconds(2)
    with bus.sender("later-in") as sender:
        (number,) = sender.schedule_messages([ServiceBusMessage("later")], due)
        (doomed,) = sender.schedule_messages([ServiceBusMessage("never")], due)
        sender.cancel_scheduled_messages(doomed)
        sender.send_messages(ServiceBusMessage("now"))
    assert operator.entity("later-in")["totals"]["scheduled"] == 1
    with bus.receiver("later-out", receive_mode=RECEIVE_AND_DELETE) as receiver:
        now, later = collect(receiver, 2)
    assert bodies([now, later]) == ["now", "later"]
    assert later.enqueued_time_utc.replace(tzinfo=datetime.UTC) >= due - seconds(0.1)
    # Becoming active gave it a new number; that is the one it was first enqueued under.
    assert later.enqueued_sequence_number > number


@pytest.mark.rule("FWD-6", "CON-19")
def test_four_hops_are_allowed(bus: Bus, operator: Operator) -> None:
    with bus.sender("four-0") as sender:
        sender.send_messages(ServiceBusMessage("goes far"))
    with bus.receiver("four-4") as receiver:
        (message,) = collect(receiver, 1)
    assert message.enqueued_sequence_number == 1
    until("nothing to be on its way", lambda: not operator.entity("four-3")["totals"]["transfer"])


@pytest.mark.rule("FWD-6", "DLQ-6", "CON-19")
def test_the_fifth_hop_is_one_too_many(bus: Bus) -> None:
    with bus.sender("five-0") as sender:
        sender.send_messages(ServiceBusMessage("goes too far"))
    with bus.dead_letters("five-4") as receiver:
        (message,) = collect(receiver, 1)
    assert message.dead_letter_reason == "MaxTransferHopCountExceeded"
    assert "4" in (message.dead_letter_error_description or "")
    with bus.receiver("five-5") as receiver:
        assert receiver.receive_messages(max_wait_time=1) == []


@pytest.mark.asyncio
@pytest.mark.rule("FWD-1")
async def test_the_asynchronous_client(async_client: AsyncServiceBusClient) -> None:
    async with async_client.get_queue_sender("plain-in") as sender:
        await sender.send_messages([ServiceBusMessage(f"a{n}") for n in range(5)])
    async with async_client.get_queue_receiver("plain-out") as receiver:
        got: list[str] = []
        while len(got) < 5:
            for message in await receiver.receive_messages(max_wait_time=WAIT_SECONDS_MAX):
                await receiver.complete_message(message)
                got += [str(message)] if str(message).startswith("a") else []
    assert got == [f"a{n}" for n in range(5)]


@pytest.mark.rule("DUP-7")
def test_duplicates_are_detected_where_they_arrive(bus: Bus) -> None:
    with bus.sender("twins-in-0") as one, bus.sender("twins-in-1") as other:
        one.send_messages(ServiceBusMessage("first", message_id="same"))
    with bus.receiver("twins-out", receive_mode=RECEIVE_AND_DELETE) as receiver:
        assert bodies(collect(receiver, 1)) == ["first"]
        with bus.sender("twins-in-0") as one, bus.sender("twins-in-1") as other:
            one.send_messages(ServiceBusMessage("again", message_id="same"))
            other.send_messages(ServiceBusMessage("from elsewhere", message_id="same"))
            other.send_messages(ServiceBusMessage("different", message_id="another"))
        assert bodies(collect(receiver, 1)) == ["different"]
        assert receiver.receive_messages(max_wait_time=1) == []


# --- circles -------------------------------------------------------------------------------------


@pytest.mark.rule("FWD-6")
@pytest.mark.parametrize("queue", ["own", "own-parted", "ring-1"])
def test_what_goes_round_ends_as_a_dead_letter(bus: Bus, operator: Operator, queue: str) -> None:
    with bus.sender("ring-0" if queue == "ring-1" else queue) as sender:
        sender.send_messages([ServiceBusMessage(f"m{n}") for n in range(3)])
    with bus.dead_letters(queue, receive_mode=RECEIVE_AND_DELETE) as receiver:
        letters = collect(receiver, 3)
    assert sorted(bodies(letters)) == ["m0", "m1", "m2"]
    assert {letter.dead_letter_reason for letter in letters} == {"MaxTransferHopCountExceeded"}
    totals = operator.entity(queue)["totals"]
    assert (totals["active"], totals["transfer"], totals["dead_letter"]) == (0, 0, 0)


# --- sessions ------------------------------------------------------------------------------------


@pytest.mark.rule("FWD-4")
def test_a_source_that_requires_sessions_keeps_their_order(bus: Bus) -> None:
    with bus.sender("sessions-in") as sender:
        for number in range(12):
            sender.send_messages(ServiceBusMessage(f"{number}", session_id=f"s{number % 3}"))
    for session in range(3):
        with bus.receiver("sessions-out", session_id=f"s{session}") as receiver:
            got = bodies(collect(receiver, 4))
            assert got == [f"{number}" for number in range(12) if number % 3 == session]


@pytest.mark.rule("FWD-4")
def test_a_session_in_use_when_forwarding_is_switched_on(bus: Bus, server: ServerProcess) -> None:
    queue, out = "sessions-later", "sessions-later-out"
    with bus.sender(queue) as sender:
        for number in range(4):
            sender.send_messages(ServiceBusMessage(f"{number}", session_id="s"))
    receiver = bus.receiver(queue, session_id="s", prefetch_count=0)
    with receiver:
        first = collect(receiver, 1)
        assert bodies(first) == ["0"]
        JsonAdmin(server).update(queue, forward_to=out)
        with pytest.raises(ServiceBusError):
            receiver.complete_message(first[0])
    with bus.receiver(out, session_id="s") as receiver:
        assert bodies(collect(receiver, 4)) == ["0", "1", "2", "3"]
