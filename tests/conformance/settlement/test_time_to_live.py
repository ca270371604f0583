"""Time to live: messages end in time, dropped or dead-lettered, unless somebody holds them.

Who waits for an expiry has a witness: a message that expires no earlier than the one in
question, and whose arrival among the dead letters says that the time has come.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

pytest.importorskip("proton", reason="needs Qpid Proton, which is built with a C compiler")

from azure.servicebus import ServiceBusMessage, ServiceBusReceivedMessage, ServiceBusReceiver
from azure.servicebus.exceptions import MessageNotFoundError

from conformance.settlement.backstage import Backstage, dead, text_message
from conformance.settlement.bus import RECEIVE_AND_DELETE, Bus, Closing
from conformance.settlement.namespace import Queues, write_queues
from conformance.settlement.steps import seconds, until, utc_now
from support.receiving import collect
from support.server import ServerProcess

pytestmark = pytest.mark.group("proton")


def send(stage: Backstage, queue: str, *texts: str, ttl: float = 1) -> None:
    stage.send(queue, *(text_message(text, ttl=ttl) for text in texts))


@dataclass(frozen=True, slots=True)
class Aged:
    """A message that somebody took in time, and whose time is over now."""

    queue: str
    receiver: ServiceBusReceiver
    message: ServiceBusReceivedMessage


@pytest.fixture(scope="module")
def aged(server: ServerProcess, queues: Queues, closing: Closing) -> Iterator[dict[str, Aged]]:
    """Messages in several hands, by what is or will be done with them; one wait for all."""
    bus = Bus(server.connection_string)
    taken = {}
    with Backstage(server) as stage:
        for fate in ("completed", "abandoned", "dead-lettered", "deferred"):
            queue = queues.fresh("mourning")
            receiver = bus.receiver(queue)
            assert receiver.peek_messages() == []  # the link is open before the clock starts
            send(stage, queue, "held")
            taken[fate] = Aged(queue, receiver, *collect(receiver, 1))
            if fate == "dead-lettered":
                receiver.dead_letter_message(taken[fate].message, reason="own")
            elif fate == "deferred":
                receiver.defer_message(taken[fate].message)
        await_expiry(stage, queues.fresh("mourning"))
    yield taken
    closing.close(bus.client)


def await_expiry(stage: Backstage, queue: str) -> None:
    """Return when everything that was sent before with a second to live has expired."""
    send(stage, queue, "witness")
    (message,) = stage.take_dead(queue, 1)
    assert bytes(message.body) == b"witness"


@pytest.mark.rule("TTL-1", "TTL-4", "TTL-6", "TTL-7", "DLQ-5", "DLQ-6", "CON-22")
def test_without_any_receiver_an_expired_message_becomes_a_dead_letter(
    bus: Bus, stage: Backstage, queues: Queues
) -> None:
    queue = queues.fresh("mourning")
    bus.sender(queue).send_messages(ServiceBusMessage("late", time_to_live=seconds(1)))
    (shown,) = stage.peek(queue)
    (message,) = collect(bus.dead_letters(queue, receive_mode=RECEIVE_AND_DELETE), 1)
    assert str(message) == "late"
    assert message.dead_letter_reason == "TTLExpiredException"
    assert message.dead_letter_error_description
    assert message.sequence_number == shown.number
    assert message.expires_at_utc == message.enqueued_time_utc + seconds(1)
    assert stage.peek(queue) == []


@pytest.mark.rule("TTL-6", "TTL-7")
def test_an_expired_message_is_dropped_where_the_queue_does_not_keep_it(
    bus: Bus, stage: Backstage, queues: Queues
) -> None:
    queue = queues.fresh("vanishing")
    bus.sender(queue).send_messages(ServiceBusMessage("gone"))
    assert stage.shown(queue) == ["gone"]
    until("the message to go", lambda: not stage.peek(queue))
    assert stage.peek(dead(queue)) == []


@pytest.mark.rule("TTL-2")
def test_the_default_of_the_queue_is_a_ceiling(bus: Bus, stage: Backstage, queues: Queues) -> None:
    queue = queues.fresh("fleeting")  # a second
    longer = ServiceBusMessage("longer", time_to_live=seconds(3600))
    bus.sender(queue).send_messages([ServiceBusMessage("none"), longer])
    send(stage, queue, "shorter", ttl=0.5)
    messages = collect(bus.dead_letters(queue, receive_mode=RECEIVE_AND_DELETE), 3)
    lives = {str(m): m.time_to_live for m in messages}
    assert lives == {"none": seconds(1), "longer": seconds(1), "shorter": seconds(0.5)}
    assert all(m.expires_at_utc == m.enqueued_time_utc + m.time_to_live for m in messages)
    assert {m.dead_letter_reason for m in messages} == {"TTLExpiredException"}


@pytest.mark.rule("TTL-5")
def test_a_locked_message_is_spared_and_can_be_completed(
    aged: dict[str, Aged], stage: Backstage
) -> None:
    held = aged["completed"]
    assert stage.shown(held.queue) == ["held"]
    held.receiver.complete_message(held.message)
    assert stage.peek(held.queue) == stage.peek(dead(held.queue)) == []


@pytest.mark.rule("TTL-5", "TTL-6")
def test_an_abandoned_message_that_has_expired_ends_at_once(
    aged: dict[str, Aged], stage: Backstage
) -> None:
    held = aged["abandoned"]
    held.receiver.abandon_message(held.message)
    (late,) = stage.take_dead(held.queue, 1)
    assert late.properties["DeadLetterReason"] == "TTLExpiredException"


@pytest.mark.rule("TTL-5")
def test_a_lapsed_message_that_has_expired_ends_at_once(stage: Backstage, queues: Queues) -> None:
    queue = queues.fresh("brief-mourning")
    send(stage, queue, "held", ttl=0.6)
    stage.receiver(queue, credit=1).wait_for(1)
    (late,) = stage.take_dead(queue, 1)
    assert late.properties["DeadLetterReason"] == "TTLExpiredException"
    assert stage.peek(queue) == []


@pytest.mark.rule("TTL-9", "DLQ-3")
def test_dead_letters_do_not_expire(aged: dict[str, Aged], stage: Backstage) -> None:
    (letter,) = stage.take_dead(aged["dead-lettered"].queue, 1)
    assert letter.properties["DeadLetterReason"] == "own"


@pytest.mark.rule("TTL-10", "DEF-3")
def test_a_deferred_message_expires_when_it_is_asked_for(
    aged: dict[str, Aged], stage: Backstage
) -> None:
    held = aged["deferred"]
    assert stage.shown(held.queue) == ["held"], "the sweep leaves it alone"
    with pytest.raises(MessageNotFoundError):
        held.receiver.receive_deferred_messages(held.message.sequence_number)
    (late,) = stage.take_dead(held.queue, 1)
    assert late.properties["DeadLetterReason"] == "TTLExpiredException"
    assert stage.peek(held.queue) == []


@pytest.mark.rule("TTL-8", "PRE-3")
def test_a_client_may_hand_out_an_expired_message_from_its_buffer(
    bus: Bus, stage: Backstage, queues: Queues
) -> None:
    queue, elsewhere = queues.fresh("mourning"), queues.fresh("mourning")
    receiver = bus.receiver(queue, receive_mode=RECEIVE_AND_DELETE, prefetch_count=5)
    assert receiver.peek_messages() == []
    send(stage, queue, "one", "two")
    (first,) = collect(receiver, 1)
    assert str(first) == "one"
    assert stage.peek(queue) == [], "the broker has let go of both"
    await_expiry(stage, elsewhere)
    (second,) = collect(receiver, 1)
    assert str(second) == "two"


@pytest.mark.rule("TTL-11")
@pytest.mark.parametrize(("life", "is_allowed"), [("PT1S", True), ("PT0.999S", False)])
def test_a_queue_gives_its_messages_a_second_at_least(
    tmp_path_factory: pytest.TempPathFactory, life: str, is_allowed: bool
) -> None:
    folder = tmp_path_factory.mktemp("life")
    properties = {"default_message_time_to_live": f'"{life}"'}
    server = ServerProcess(folder, write_queues(folder / "q.toml", {"q": properties}))
    if is_allowed:
        with server:
            return
    with pytest.raises(AssertionError, match="default_message_time_to_live"):
        server.start()


def times(message: ServiceBusReceivedMessage) -> tuple[int | None, int | None, int | None]:
    """The header's time to live, the creation time and the expiry time, in milliseconds."""
    raw = message.raw_amqp_message
    assert raw.header is not None and raw.properties is not None
    made, ends = raw.properties.creation_time, raw.properties.absolute_expiry_time
    return raw.header.time_to_live, made, ends


@pytest.mark.rule("TTL-1", "MSG-2")
def test_what_was_sent_of_its_life_comes_back(bus: Bus, stage: Backstage, queue: str) -> None:
    then = int(utc_now().timestamp()) - 5  # it was on its way for so long
    stage.send(queue, text_message("one", ttl=60, creation_time=then, expiry_time=then + 60))
    made = then * 1000
    receiver = bus.receiver(queue)
    (shown,) = receiver.peek_messages()
    (message,) = collect(receiver, 1)
    assert times(shown) == times(message) == (60_000, made, made + 60_000)
    assert message.expires_at_utc == message.enqueued_time_utc + seconds(60)
    # The client that sends it on says that it was created now.
    bus.sender(queue).send_messages(message)
    receiver.complete_message(message)
    (again,) = collect(receiver, 1)
    life, made_again, ends = times(again)
    assert made_again is not None and ends is not None
    assert (life, ends - made_again) == (60_000, 60_000)
    receiver.complete_message(again)


@pytest.mark.rule("TTL-2")
def test_the_default_of_the_queue_fills_in_all_of_them(bus: Bus, queues: Queues) -> None:
    queue = queues.fresh("fleeting")  # a second
    bus.sender(queue).send_messages(ServiceBusMessage("none"))
    (message,) = collect(bus.dead_letters(queue, receive_mode=RECEIVE_AND_DELETE), 1)
    life, made, ends = times(message)
    assert made is not None and ends is not None
    assert (life, ends - made) == (1_000, 1_000)
