"""Annotated messages of the stock Python client: every section arrives as it was sent."""

from typing import Any

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.amqp import (
    AmqpAnnotatedMessage,
    AmqpMessageBodyType,
    AmqpMessageHeader,
    AmqpMessageProperties,
)

from conformance.messages.conftest import Queues
from conformance.settlement.bus import RECEIVE_AND_DELETE, Bus
from support.receiving import collect

BODIES: dict[str, tuple[dict[str, Any], AmqpMessageBodyType, Any]] = {
    "data": ({"data_body": b"one"}, AmqpMessageBodyType.DATA, [b"one"]),
    "several data": ({"data_body": [b"one", b"two"]}, AmqpMessageBodyType.DATA, [b"one", b"two"]),
    "sequence": (
        {"sequence_body": [1, "two", [3.5, None]]},
        AmqpMessageBodyType.SEQUENCE,
        [[1, b"two", [3.5, None]]],
    ),
    "several sequences": (
        {"sequence_body": [[1], ["two"]]},
        AmqpMessageBodyType.SEQUENCE,
        [[1], [b"two"]],
    ),
    "value": ({"value_body": {"a": [1, 2]}}, AmqpMessageBodyType.VALUE, {b"a": [1, 2]}),
    "text": ({"value_body": "text"}, AmqpMessageBodyType.VALUE, b"text"),
}


def annotated(**body: Any) -> AmqpAnnotatedMessage:
    return AmqpAnnotatedMessage(
        **body,
        header=AmqpMessageHeader(durable=True, priority=7),
        delivery_annotations={"hop": "first", "x-opt-lock-token": "forged"},
        annotations={"note": "kept"},
        properties=AmqpMessageProperties(message_id="the-id", subject="subject", group_sequence=3),
        application_properties={"kind": "order"},
        footer={"sum": "of it", "number": 5},
    )


def check(message: Any, kind: str, *, is_locked: bool) -> None:
    _, body_type, body = BODIES[kind]
    raw = message.raw_amqp_message
    assert raw.body_type == body_type
    assert (raw.body if body_type is AmqpMessageBodyType.VALUE else list(raw.body)) == body
    assert raw.footer == {b"sum": b"of it", b"number": 5}
    own = dict(raw.delivery_annotations)
    assert own.pop(b"hop") == b"first"
    assert set(own) == ({b"x-opt-lock-token"} if is_locked else set())
    assert raw.annotations[b"note"] == b"kept"
    assert raw.application_properties == {b"kind": b"order"}
    assert (raw.header.durable, raw.header.priority) == (True, 7)
    assert raw.properties.group_sequence == 3
    assert (message.message_id, message.subject) == ("the-id", "subject")


@pytest.mark.rule("MSG-1", "MSG-2")
@pytest.mark.parametrize("kind", BODIES)
def test_every_section_arrives(bus: Bus, queues: Queues, kind: str) -> None:
    queue = queues.fresh("plain")
    with bus.sender(queue) as sender:
        sender.send_messages(annotated(**BODIES[kind][0]))
    with bus.receiver(queue) as receiver:
        (peeked,) = receiver.peek_messages(1)
        check(peeked, kind, is_locked=False)
        (message,) = collect(receiver, 1)
        check(message, kind, is_locked=True)
        assert (
            message.lock_token == message.raw_amqp_message.delivery_annotations[b"x-opt-lock-token"]
        )
        receiver.dead_letter_message(message, reason="because")
    with bus.dead_letters(queue, receive_mode=RECEIVE_AND_DELETE) as receiver:
        (dead,) = collect(receiver, 1)
        assert dead.dead_letter_reason == "because"
        del dead.raw_amqp_message.application_properties[b"DeadLetterReason"]
        dead.raw_amqp_message.application_properties.pop(b"DeadLetterErrorDescription", None)
        check(dead, kind, is_locked=False)


def test_what_was_not_said_in_the_header_is_not_said_to_the_receiver(
    bus: Bus, queues: Queues
) -> None:
    queue = queues.fresh("plain")
    with bus.sender(queue) as sender:
        sender.send_messages(ServiceBusMessage("silent"))
        sender.send_messages(AmqpAnnotatedMessage(data_body=b"", header={"priority": 9}))
    with bus.receiver(queue) as receiver:
        headers = [message.raw_amqp_message.header for message in collect(receiver, 2)]
    shown = [(each.durable, each.priority, each.first_acquirer) for each in headers if each]
    assert shown == [(None, None, None), (None, 9, None)]
    assert [each.delivery_count for each in headers if each] == [0, 0]


def test_a_batch_keeps_every_section(bus: Bus, queues: Queues) -> None:
    queue = queues.fresh("plain")
    with bus.sender(queue) as sender:
        sender.send_messages([annotated(**body) for body, _, _ in BODIES.values()])
    with bus.receiver(queue) as receiver:
        for kind, message in zip(BODIES, collect(receiver, len(BODIES)), strict=True):
            check(message, kind, is_locked=True)
            receiver.complete_message(message)


def test_an_annotated_message_is_sent_on(bus: Bus, queues: Queues) -> None:
    first, second = queues.fresh("plain"), queues.fresh("plain")
    bus.sender(first).send_messages(annotated(**BODIES["data"][0]))
    with bus.receiver(first) as receiver:
        (message,) = collect(receiver, 1)
        bus.sender(second).send_messages(message)
        receiver.complete_message(message)
    with bus.receiver(second) as receiver:
        (again,) = collect(receiver, 1)
        assert again.lock_token != message.lock_token
        check(again, "data", is_locked=True)
