"""Dead-letter queues with the stock Python client: how messages enter, and life inside."""

import uuid
from pathlib import Path

import pytest

pytest.importorskip("proton", reason="needs Qpid Proton, which is built with a C compiler")

from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusError, ServiceBusQuotaExceededError
from proton import Delivery, LinkException, Message

from conformance.settlement.backstage import DEFERRED, Backstage, dead, text_message
from conformance.settlement.bus import TRANSFER_DEAD_LETTER, Bus
from conformance.settlement.namespace import Queues, write_queues
from conformance.settlement.steps import text_properties
from support.proton.client import ENQUEUED_TIME, SEQUENCE_NUMBER
from support.receiving import collect
from support.server import ServerProcess

pytestmark = pytest.mark.group("proton")

DESCRIPTION_LENGTH_MAX = 4096


def make_dead(stage: Backstage, queue: str, *texts: str) -> None:
    """Send messages and move each to the dead letters."""
    stage.send(queue, *texts)
    receiver = stage.receiver(queue, credit=len(texts))
    for _, delivery in receiver.wait_for(len(texts)):
        receiver.settle(delivery, Delivery.REJECTED)
    receiver.close()


@pytest.mark.rule("SEED-101", "DLQ-2", "DLQ-4", "DLQ-5", "DLQ-6", "SEQ-8")
def test_a_dead_letter_keeps_all_it_had_and_gets_the_reason(
    bus: Bus, stage: Backstage, queue: str
) -> None:
    sent = text_message("bad", id="the-id", subject="the-subject", properties={"tenant": "a"})
    stage.send(queue, sent)
    receiver = bus.receiver(queue)
    (message,) = collect(receiver, 1)
    receiver.dead_letter_message(message, reason="Unreadable", error_description="not JSON")
    assert stage.peek(queue) == [], "it is in one place only"
    (letter,) = stage.take_dead(queue, 1)
    assert stage.peek(dead(queue)) == []
    assert (bytes(letter.body), letter.id, letter.subject) == (b"bad", "the-id", "the-subject")
    assert letter.properties == {
        "tenant": "a",
        "DeadLetterReason": "Unreadable",
        "DeadLetterErrorDescription": "not JSON",
    }
    assert letter.annotations[SEQUENCE_NUMBER] == message.sequence_number
    assert letter.annotations[ENQUEUED_TIME] == message.enqueued_time_utc.timestamp() * 1000


@pytest.mark.rule("DLQ-5")
def test_without_a_reason_there_is_none(bus: Bus, stage: Backstage, queue: str) -> None:
    stage.send(queue, "bad")
    receiver = bus.receiver(queue)
    receiver.dead_letter_message(*collect(receiver, 1))
    (letter,) = collect(bus.dead_letters(queue), 1)
    assert letter.dead_letter_reason is None
    assert letter.dead_letter_error_description is None


@pytest.mark.rule("DLV-2", "SEED-98", "DLQ-6")
def test_the_last_allowed_delivery_that_is_abandoned_makes_a_dead_letter(
    bus: Bus, stage: Backstage, queues: Queues
) -> None:
    queue = queues.fresh("once")
    stage.send(queue, "poison")
    receiver = bus.receiver(queue)
    receiver.abandon_message(*collect(receiver, 1))
    (letter,) = collect(bus.dead_letters(queue), 1)
    assert letter.dead_letter_reason == "MaxDeliveryCountExceeded"
    assert letter.dead_letter_error_description
    assert stage.peek(queue) == []


@pytest.mark.rule("DLQ-3", "ERR-13", "ERR-22")
def test_a_dead_letter_cannot_be_dead_lettered_again(
    bus: Bus, stage: Backstage, queue: str
) -> None:
    make_dead(stage, queue, "bad")
    letters = bus.dead_letters(queue)
    (letter,) = collect(letters, 1)
    with pytest.raises(ServiceBusError, match=r"amqp:not-allowed") as refusal:
        letters.dead_letter_message(letter, reason="again")
    assert "TrackingId:" in str(refusal.value)
    # The refusal changed nothing, the lock included.
    token = uuid.UUID(str(letter.lock_token))
    node = stage.management(dead(queue))
    assert node.settle("suspended", token).condition == "amqp:not-allowed"
    assert node.settle("completed", token).status == 200
    assert stage.peek(dead(queue)) == []


@pytest.mark.rule("DLQ-2", "ERR-13")
def test_nothing_can_be_sent_to_it(bus: Bus, stage: Backstage, queue: str) -> None:
    for address in (dead(queue), f"{queue}/$Transfer/$DeadLetterQueue"):
        with pytest.raises(LinkException, match="amqp:not-allowed"):
            stage.sender(address)
        reply = stage.management(address).ask("schedule-message", {"messages": []})
        assert reply.condition == "amqp:not-allowed"
        assert stage.peek(address) == []
    with pytest.raises(ServiceBusError, match="amqp:not-allowed"):
        bus.sender(dead(queue)).send_messages(ServiceBusMessage("uninvited"))


@pytest.mark.rule("DLQ-3", "DLV-2", "DLV-4")
def test_dead_letters_are_settled_and_never_given_up(
    bus: Bus, stage: Backstage, queues: Queues
) -> None:
    queue = queues.fresh("fragile")  # two deliveries
    make_dead(stage, queue, "bad", "worse")
    letters = bus.dead_letters(queue)
    for _ in range(3):
        (letter,) = collect(letters, 1)
        assert str(letter) == "bad"
        letters.abandon_message(letter)
    bad, worse = collect(letters, 2)
    letters.complete_message(bad)
    letters.defer_message(worse)
    assert [(item.body, item.state) for item in stage.peek(dead(queue))] == [("worse", DEFERRED)]


@pytest.mark.rule("DLV-4", "ASK-25")
def test_deliveries_among_dead_letters_are_counted_but_have_no_limit(
    bus: Bus, stage: Backstage, queue: str
) -> None:
    make_dead(stage, queue, "bad")
    letters = bus.dead_letters(queue)
    counts = []
    for _ in range(12):
        (letter,) = collect(letters, 1)
        counts.append(letter.delivery_count)
        letters.abandon_message(letter)
    assert counts == list(range(12))


@pytest.mark.rule("DLV-4")
def test_a_dead_letter_s_count_does_not_grow_in_the_vendor_s_profiles(tmp_path: Path) -> None:
    config = write_queues(tmp_path / "namespace.toml", {"q": {}})
    with ServerProcess(tmp_path, config, "--profile", "standard") as server:
        bus = Bus(server.connection_string)
        with Backstage(server) as stage:
            make_dead(stage, "q", "bad")
        letters = bus.dead_letters("q")
        for _ in range(3):
            (letter,) = collect(letters, 1)
            assert letter.delivery_count == 0
            letters.abandon_message(letter)
        letters.defer_message(*collect(letters, 1))
        (letter,) = letters.receive_deferred_messages(letter.sequence_number)
        assert letter.delivery_count == 0
        bus.client.close()


@pytest.mark.rule("DLQ-1")
def test_every_queue_has_one_without_asking(bus: Bus, queue: str) -> None:
    letters = bus.dead_letters(queue)
    assert letters.peek_messages() == []
    assert letters.receive_messages(max_wait_time=0.2) == []


def test_the_transfer_dead_letter_queue_can_be_received_from(bus: Bus, queue: str) -> None:
    letters = bus.receiver(queue, sub_queue=TRANSFER_DEAD_LETTER)
    assert letters.peek_messages() == []
    assert letters.receive_messages(max_wait_time=0.2) == []
    assert letters.entity_path == f"{queue}/$Transfer/$DeadLetterQueue"


@pytest.mark.rule("DLQ-7", "ERR-9")
def test_dead_letters_count_against_the_size_of_the_queue(
    bus: Bus, stage: Backstage, queues: Queues
) -> None:
    queue = queues.fresh("tiny")  # a megabyte
    large = Message(body=b"x" * 600_000, inferred=True)
    stage.send(queue, large)
    receiver = stage.receiver(queue, credit=1)
    ((_, delivery),) = receiver.wait_for(1)
    receiver.settle(delivery, Delivery.REJECTED)
    sender = bus.sender(queue)
    with pytest.raises(ServiceBusQuotaExceededError):
        sender.send_messages(ServiceBusMessage(b"x" * 600_000))
    stage.take_dead(queue, 1)
    sender.send_messages(ServiceBusMessage(b"x" * 600_000))


@pytest.mark.rule("DLQ-11")
def test_a_long_description_is_cut_instead_of_refused(
    bus: Bus, stage: Backstage, queue: str
) -> None:
    stage.send(queue, "bad")
    receiver = bus.receiver(queue)
    (message,) = collect(receiver, 1)
    receiver.dead_letter_message(
        message, reason="Crash", error_description="at line 1\n" * DESCRIPTION_LENGTH_MAX
    )
    (letter,) = stage.take_dead(queue, 1)
    description = letter.properties["DeadLetterErrorDescription"]
    assert description.startswith("at line 1\nat line 1\n")
    assert len(description) == DESCRIPTION_LENGTH_MAX


@pytest.mark.rule("DLQ-6")
def test_properties_that_outgrow_the_header_make_a_dead_letter(
    stage: Backstage, queue: str
) -> None:
    half = "x" * 31_000
    stage.send(queue, text_message("swollen", properties={"one": half, "two": half}))
    receiver = stage.receiver(queue, credit=1)
    ((_, delivery),) = receiver.wait_for(1)
    delivery.local.annotations = {"three": "x" * 10_000}
    receiver.settle(delivery, Delivery.MODIFIED)
    assert stage.peek(queue) == []
    (letter,) = stage.take_dead(queue, 1)
    assert letter.properties["DeadLetterReason"] == "HeaderSizeExceeded"


@pytest.mark.rule("LCK-10", "SEED-101", "DLQ-5")
def test_properties_given_with_the_reason_are_readable_there(
    bus: Bus, stage: Backstage, queue: str
) -> None:
    stage.send(queue, text_message("bad", properties={"tries": 1, "tenant": "a"}))
    receiver = bus.receiver(queue)
    (message,) = collect(receiver, 1)
    reply = stage.management(queue).settle(
        "suspended",
        uuid.UUID(str(message.lock_token)),
        deadletter_reason="Unreadable",
        deadletter_description="not JSON",
        properties_to_modify={"tries": 2, "host": "h1"},
    )
    assert reply.status == 200
    (letter,) = collect(bus.dead_letters(queue), 1)
    assert text_properties(letter) == {
        "tries": 2,
        "tenant": "a",
        "host": "h1",
        "DeadLetterReason": "Unreadable",
        "DeadLetterErrorDescription": "not JSON",
    }
