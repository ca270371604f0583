"""Every refusal as the stock Python client shows it: class, condition, text, whether to retry."""

import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass

import pytest

pytest.importorskip("proton", reason="needs Qpid Proton, which is built with a C compiler")

from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import (
    MessageLockLostError,
    MessageNotFoundError,
    MessageSizeExceededError,
    MessagingEntityDisabledError,
    MessagingEntityNotFoundError,
    ServiceBusError,
    ServiceBusQuotaExceededError,
)
from proton import Message, int32

from conformance.settlement.backstage import Backstage, dead
from conformance.settlement.bus import Bus
from conformance.settlement.namespace import Queues
from conformance.settlement.steps import seconds, utc_now
from support.receiving import bodies, collect

pytestmark = pytest.mark.group("proton")

MEGABYTE = 1024 * 1024
MARKS = re.compile(
    r"TrackingId:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}, SystemTracker:\S+, "
    r"Timestamp:\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d"
)
LATER = seconds(3600)


@dataclass(frozen=True, slots=True)
class Scene:
    """What a provocation may use."""

    bus: Bus
    stage: Backstage
    queues: Queues


def message_of(size: int) -> ServiceBusMessage:
    return ServiceBusMessage(b"x" * size)


def send_to_missing(scene: Scene) -> None:
    scene.bus.sender("no-such-queue").send_messages(message_of(1))


def receive_from_missing(scene: Scene) -> None:
    scene.bus.receiver("no-such-queue").receive_messages(max_wait_time=5)


def peek_at_missing(scene: Scene) -> None:
    scene.bus.receiver("no-such-queue").peek_messages()


def send_to_disabled(scene: Scene) -> None:
    scene.bus.sender(scene.queues.fresh("disabled")).send_messages(message_of(1))


def receive_from_disabled(scene: Scene) -> None:
    scene.bus.receiver(scene.queues.fresh("disabled")).receive_messages(max_wait_time=5)


def complete_without_lock(scene: Scene) -> None:
    queue = scene.queues.fresh()
    receiver = scene.bus.receiver(queue)
    scene.stage.send(queue, "held")
    (message,) = collect(receiver, 1)
    scene.stage.management(queue).settle("abandoned", uuid.UUID(str(message.lock_token)))
    receiver.complete_message(message)


def receive_unknown_number(scene: Scene) -> None:
    scene.bus.receiver(scene.queues.fresh()).receive_deferred_messages(10_000)


def cancel_unknown_number(scene: Scene) -> None:
    scene.bus.sender(scene.queues.fresh()).cancel_scheduled_messages(10_000)


def send_too_large(scene: Scene) -> None:
    scene.bus.sender(scene.queues.fresh("narrow")).send_messages(message_of(20_000))


def send_to_full(scene: Scene) -> None:
    queue = scene.queues.fresh("tiny")
    scene.stage.send(queue, Message(body=b"x" * 900_000, inferred=True))
    scene.bus.sender(queue).send_messages(message_of(200_000))


def send_to_dead_letters(scene: Scene) -> None:
    scene.bus.sender(dead(scene.queues.fresh())).send_messages(message_of(1))


def send_too_long_a_header(scene: Scene) -> None:
    properties = {str(number): "x" * 30_000 for number in range(3)}
    message = ServiceBusMessage("one", application_properties=properties)
    scene.bus.sender(scene.queues.fresh()).send_messages(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A provocation and what its author is to see."""

    provoke: Callable[[Scene], None]
    error: type[ServiceBusError]
    condition: str
    is_retryable: bool = False


REFUSALS = (
    Refusal(
        provoke=send_to_missing, error=MessagingEntityNotFoundError, condition="amqp:not-found"
    ),
    Refusal(
        provoke=receive_from_missing, error=MessagingEntityNotFoundError, condition="amqp:not-found"
    ),
    Refusal(
        provoke=peek_at_missing, error=MessagingEntityNotFoundError, condition="amqp:not-found"
    ),
    # The client itself deems a disabled entity and a missing message worth another try.
    Refusal(
        provoke=send_to_disabled,
        error=MessagingEntityDisabledError,
        condition="com.microsoft:entity-disabled",
        is_retryable=True,
    ),
    Refusal(
        provoke=receive_from_disabled,
        error=MessagingEntityDisabledError,
        condition="com.microsoft:entity-disabled",
        is_retryable=True,
    ),
    Refusal(
        provoke=complete_without_lock,
        error=MessageLockLostError,
        condition="com.microsoft:message-lock-lost",
    ),
    Refusal(
        provoke=receive_unknown_number,
        error=MessageNotFoundError,
        condition="com.microsoft:message-not-found",
        is_retryable=True,
    ),
    Refusal(
        provoke=cancel_unknown_number,
        error=MessageNotFoundError,
        condition="com.microsoft:message-not-found",
        is_retryable=True,
    ),
    Refusal(
        provoke=send_too_large,
        error=MessageSizeExceededError,
        condition="amqp:link:message-size-exceeded",
    ),
    Refusal(
        provoke=send_to_full,
        error=ServiceBusQuotaExceededError,
        condition="amqp:resource-limit-exceeded",
    ),
    Refusal(provoke=send_to_dead_letters, error=ServiceBusError, condition="amqp:not-allowed"),
    Refusal(
        provoke=send_too_long_a_header,
        error=ServiceBusError,
        condition="com.microsoft:argument-error",
    ),
)


@pytest.mark.rule("SEED-83", "SEED-84", "SEED-103", "ERR-22", "CON-14")
@pytest.mark.rule("ERR-1", "ERR-3", "ERR-4", "ERR-7", "ERR-8", "ERR-9", "ERR-13", "ERR-14")
@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.provoke.__name__)
def test_a_refusal_has_its_class_its_condition_and_the_marks_that_support_asks_for(
    bus: Bus, stage: Backstage, queues: Queues, refusal: Refusal
) -> None:
    with pytest.raises(ServiceBusError) as raised:
        refusal.provoke(Scene(bus, stage, queues))
    assert type(raised.value) is refusal.error
    assert refusal.condition in str(raised.value)
    assert MARKS.search(str(raised.value)), str(raised.value)
    assert raised.value._retryable is refusal.is_retryable


@pytest.mark.rule("ERR-22", "SEED-83")
def test_every_text_ends_with_marks_of_its_own(stage: Backstage, queue: str) -> None:
    node = stage.management(queue)
    replies = [
        node.renew(uuid.uuid4()),
        node.renew(uuid.uuid4()),
        node.receive_deferred(10_000),
        node.cancel_scheduled(10_000),
        node.ask("peek-message", {"message-count": "many"}),
        node.ask("no-such-operation", {}),
        stage.management(dead(queue)).settle("suspended", uuid.uuid4()),
    ]
    found = [MARKS.search(reply.text) for reply in replies]
    assert all(mark and mark.end() == len(mark.string) for mark in found), replies
    assert len({mark.group() for mark in found if mark}) == len(replies)


@pytest.mark.rule("AMQ-4")
def test_an_unknown_operation_is_answered_as_such(stage: Backstage, queue: str) -> None:
    reply = stage.management(queue).ask("no-such-operation", {"message-count": int32(1)})
    assert (reply.status, reply.condition) == (501, "amqp:not-implemented")


@pytest.mark.rule("ERR-9", "ERR-23")
def test_a_full_queue_says_how_full_and_takes_more_when_there_is_room(
    bus: Bus, stage: Backstage, queues: Queues
) -> None:
    queue = queues.fresh("tiny")  # a megabyte
    sender = bus.sender(queue)
    for _ in range(5):
        sender.send_messages(message_of(200_000))
    with pytest.raises(ServiceBusQuotaExceededError) as refusal:
        sender.send_messages(message_of(200_000))
    numbers = [int(number) for number in re.findall(r"\b\d{7}\b", str(refusal.value))]
    assert queue in str(refusal.value)
    assert MEGABYTE in numbers
    assert any(5 * 200_000 <= number < MEGABYTE for number in numbers), "what is used"
    stage.take(queue, 1)
    sender.send_messages(message_of(200_000))


@pytest.mark.rule("ERR-9")
def test_scheduled_messages_count_against_the_size_too(
    bus: Bus, stage: Backstage, queues: Queues
) -> None:
    queue = queues.fresh("tiny")
    sender = bus.sender(queue)
    (number,) = sender.schedule_messages(message_of(600_000), utc_now() + LATER)
    with pytest.raises(ServiceBusQuotaExceededError):
        sender.send_messages(message_of(600_000))
    with pytest.raises(ServiceBusQuotaExceededError):
        sender.schedule_messages(message_of(600_000), utc_now() + LATER)
    sender.cancel_scheduled_messages(number)
    sender.send_messages(message_of(600_000))


# --- entities that are switched off ---------------------------------------------------------------


@pytest.mark.rule("STS-1", "STS-2", "ERR-3")
def test_a_send_disabled_queue_refuses_sends_only(
    bus: Bus, stage: Backstage, queues: Queues
) -> None:
    queue = queues.fresh("send-disabled")
    with pytest.raises(MessagingEntityDisabledError):
        bus.sender(queue).send_messages(message_of(1))
    reply = stage.management(queue).ask("schedule-message", {"messages": []})
    assert reply.condition == "com.microsoft:entity-disabled"
    receiver = bus.receiver(queue)
    assert receiver.peek_messages() == []
    assert receiver.receive_messages(max_wait_time=0.2) == []


@pytest.mark.rule("STS-1", "STS-2", "STS-5", "ERR-3")
def test_a_receive_disabled_queue_refuses_receives_and_peeks(bus: Bus, queues: Queues) -> None:
    queue = queues.fresh("receive-disabled")
    bus.sender(queue).send_messages([ServiceBusMessage("one")])
    with pytest.raises(MessagingEntityDisabledError):
        bus.receiver(queue).receive_messages(max_wait_time=5)
    with pytest.raises(MessagingEntityDisabledError):
        bus.receiver(queue).peek_messages()


@pytest.mark.rule("STS-2", "STS-5", "ERR-3")
def test_the_management_node_of_a_receive_disabled_queue_receives_nothing(
    stage: Backstage, queues: Queues
) -> None:
    queue = queues.fresh("receive-disabled")
    stage.send(queue, "one")
    node = stage.management(queue)
    for reply in (node.receive_deferred(1), node.peek(1)):
        assert reply.condition == "com.microsoft:entity-disabled"


@pytest.mark.rule("STS-1", "STS-2", "ERR-3")
def test_a_disabled_queue_refuses_both(stage: Backstage, queues: Queues) -> None:
    queue = queues.fresh("disabled")
    conditions = []
    for link in (stage.sender, stage.receiver):
        with pytest.raises(Exception, match=r"com\.microsoft:entity-disabled") as refusal:
            link(queue)
        conditions.append(str(refusal.value))
    assert all(MARKS.search(text) for text in conditions)


@pytest.mark.rule("SEED-83", "ERR-8")
def test_a_sender_goes_on_after_a_refusal(bus: Bus, stage: Backstage, queues: Queues) -> None:
    queue = queues.fresh("narrow")
    sender = bus.sender(queue)
    for size in (1, 20_000, 2, 30_000, 3):
        if size < 16_000:
            sender.send_messages(message_of(size))
        else:
            with pytest.raises(MessageSizeExceededError):
                sender.send_messages(message_of(size))
    assert bodies(collect(bus.receiver(queue), 3)) == ["x", "xx", "xxx"]
