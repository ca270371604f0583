"""What a message may be: properties, types, bodies, limits; and that it comes back as it was."""

import datetime
import uuid
from collections.abc import Iterator

import pytest

pytest.importorskip("proton", reason="needs Qpid Proton, which is built with a C compiler")

import proton
from azure.servicebus import ServiceBusMessage
from azure.servicebus.amqp import (
    AmqpAnnotatedMessage,
    AmqpMessageBodyType,
    AmqpMessageHeader,
    AmqpMessageProperties,
)
from azure.servicebus.exceptions import MessageSizeExceededError, ServiceBusError
from proton import Delivery, Described, Message, symbol, ulong

from conformance.settlement.backstage import Backstage, text_message
from conformance.settlement.bus import RECEIVE_AND_DELETE, Bus
from conformance.settlement.namespace import Queues
from support.proton.client import ENQUEUED_TIME
from support.receiving import collect

pytestmark = pytest.mark.group("proton")

KILOBYTE = 1024
PARTITION_KEY = symbol("x-opt-partition-key")


def outcome(stage: Backstage, queue: str, message: Message) -> str:
    """What becomes of a send: "accepted", or the condition of the refusal."""
    link = stage.sender(queue).link
    stage.wait(lambda: link.credit > 0, "credit")
    delivery = link.send(message)
    stage.wait(lambda: bool(delivery.settled), "the outcome")
    if delivery.remote_state == Delivery.ACCEPTED:
        return "accepted"
    assert delivery.remote_state == Delivery.REJECTED
    return str(delivery.remote.condition.name)


ARGUMENT = "com.microsoft:argument-error"


@pytest.mark.rule("MSG-2", "QTA-8", "ERR-14")
@pytest.mark.parametrize("field", ["id", "group_id", "reply_to_group_id", "partition key"], ids=str)
def test_ids_have_at_most_128_characters(stage: Backstage, queue: str, field: str) -> None:
    def made(length: int) -> Message:
        text = "ü" * length
        if field == "partition key":
            return text_message("one", annotations={PARTITION_KEY: text})
        return text_message("one", **{field: text})

    assert outcome(stage, queue, made(128)) == "accepted"
    assert outcome(stage, queue, made(129)) == ARGUMENT
    assert len(stage.peek(queue)) == 1


@pytest.mark.rule("MSG-4", "QTA-7", "ERR-14")
@pytest.mark.parametrize(
    ("sizes", "is_allowed"),
    [
        ([31 * KILOBYTE], True),
        ([33 * KILOBYTE], False),
        ([31 * KILOBYTE, 31 * KILOBYTE], True),
        ([31 * KILOBYTE, 31 * KILOBYTE, 3 * KILOBYTE], False),
    ],
    ids=str,
)
def test_properties_have_limits_each_and_together(
    stage: Backstage, queue: str, sizes: list[int], is_allowed: bool
) -> None:
    properties = {f"p{number}": "x" * size for number, size in enumerate(sizes)}
    end = outcome(stage, queue, text_message("one", properties=properties))
    assert end == ("accepted" if is_allowed else ARGUMENT)


@pytest.mark.rule("MSG-4", "SEED-83")
def test_the_stock_client_is_told_of_too_large_properties(bus: Bus, queue: str) -> None:
    properties = {str(number): "x" * 30_000 for number in range(3)}
    sender = bus.sender(queue)
    with pytest.raises(ServiceBusError, match=r"65536.*TrackingId:"):
        sender.send_messages(ServiceBusMessage("one", application_properties=properties))
    sender.send_messages(ServiceBusMessage("one"))


@pytest.mark.rule("MSG-3", "QTA-6", "ERR-8")
def test_a_queue_may_accept_small_messages_only(bus: Bus, stage: Backstage, queues: Queues) -> None:
    queue = queues.fresh("narrow")  # 16 KB
    sender = bus.sender(queue)
    sender.send_messages(ServiceBusMessage(b"x" * 15 * KILOBYTE))
    with pytest.raises(MessageSizeExceededError):
        sender.send_messages(ServiceBusMessage(b"x" * 17 * KILOBYTE))
    # Properties count too.
    with pytest.raises(MessageSizeExceededError):
        sender.send_messages(
            ServiceBusMessage(b"x" * 9 * KILOBYTE, application_properties={"p": "x" * 9 * KILOBYTE})
        )
    sender.send_messages(ServiceBusMessage("small"))
    assert len(stage.peek(queue)) == 2


VALUES = {
    "null": None,
    "true": True,
    "false": False,
    "ubyte": proton.ubyte(255),
    "byte": proton.byte(-128),
    "ushort": proton.ushort(65535),
    "short": proton.short(-32768),
    "uint": proton.uint(4294967295),
    "int": proton.int32(-2147483648),
    "ulong": ulong(2**64 - 1),
    "long": -(2**63),
    "float": proton.float32(1.5),
    "double": 1.1,
    "decimal32": proton.decimal32(7),
    "decimal64": proton.decimal64(7),
    "decimal128": proton.decimal128(bytes(range(16))),
    "char": proton.char("ß"),
    "string": "grüße 🚌",
    "empty": "",
    "symbol": symbol("s"),
    "binary": b"\x00\xff",
    "uuid": uuid.UUID("065e3137-e376-41a9-9b59-11f98bb70993"),
    "timestamp": proton.timestamp(1_700_000_000_123),
}


def owned(value: object) -> object:
    return bytes(value) if isinstance(value, memoryview) else value


@pytest.mark.rule("MSG-5", "MSG-2")
def test_application_properties_of_every_type_come_back(stage: Backstage, queue: str) -> None:
    stage.send(queue, text_message("one", properties=VALUES))
    (message,) = stage.take(queue, 1)
    received = {key: owned(value) for key, value in message.properties.items()}
    assert received == VALUES
    assert {k: type(v) for k, v in received.items()} == {k: type(v) for k, v in VALUES.items()}


@pytest.mark.rule("MSG-5")
def test_the_described_values_of_the_net_client_come_back(stage: Backstage, queue: str) -> None:
    span = Described(symbol("com.microsoft:timespan"), 36_000_000_000)
    stage.send(queue, text_message("one", properties={"span": span}))
    (message,) = stage.take(queue, 1)
    assert message.properties == {"span": span}


@pytest.mark.rule("MSG-5", "ERR-14")
@pytest.mark.parametrize("value", [{"a": 1}, ["a"]], ids=["map", "list"])
def test_nested_values_are_refused(stage: Backstage, queue: str, value: object) -> None:
    assert outcome(stage, queue, text_message("one", properties={"nested": value})) == ARGUMENT


@pytest.mark.rule("MSG-2")
def test_annotations_of_the_sender_come_back(stage: Backstage, queue: str) -> None:
    own = {
        symbol("x-own"): "text",
        symbol("x-opt-own"): proton.int32(7),
        symbol("x-nested"): {"a": [1, None]},
        PARTITION_KEY: "key",
        symbol("x-opt-via-partition-key"): "via",
    }
    stage.send(queue, text_message("one", annotations=own))
    (shown,) = stage.peek(queue)
    (message,) = stage.take(queue, 1)
    for annotations in (shown.message.annotations, message.annotations):
        assert {key: annotations.get(key) for key in own} == own


@pytest.mark.rule("MSG-2", "TTL-1", "DLV-1")
def test_what_the_broker_sets_is_ignored_on_input(stage: Backstage, queue: str) -> None:
    forged = {"expiry_time": 4_000_000_000.0, "delivery_count": 5}
    stage.send(queue, text_message("with", ttl=3600, **forged), text_message("without", **forged))
    with_ttl, without = stage.take(queue, 2)
    assert (with_ttl.delivery_count, without.delivery_count) == (0, 0)
    assert with_ttl.expiry_time == with_ttl.annotations[ENQUEUED_TIME] / 1000 + 3600
    assert without.expiry_time != forged["expiry_time"]


# --- bodies -------------------------------------------------------------------------------------

BODIES = {
    "data": AmqpAnnotatedMessage(data_body=[b"one", b"", b"three"]),
    "value": AmqpAnnotatedMessage(value_body={b"a": [1, None, b"two"], b"b": 1.5}),
    "sequence": AmqpAnnotatedMessage(sequence_body=[[1, b"two", None], [3]]),
}
KINDS = {
    "data": AmqpMessageBodyType.DATA,
    "value": AmqpMessageBodyType.VALUE,
    "sequence": AmqpMessageBodyType.SEQUENCE,
}


@pytest.mark.rule("MSG-1")
def test_bodies_of_every_kind_come_back(bus: Bus, queue: str) -> None:
    sender = bus.sender(queue)
    for kind in KINDS:
        sender.send_messages(BODIES[kind])
    messages = collect(bus.receiver(queue, receive_mode=RECEIVE_AND_DELETE), len(KINDS))
    for kind, message in zip(KINDS, messages, strict=True):
        raw = message.raw_amqp_message
        assert raw.body_type == KINDS[kind]
        assert listed(raw.body) == listed(BODIES[kind].body)


def listed(body: object) -> object:
    return list(body) if isinstance(body, Iterator | list) else body


@pytest.mark.rule("MSG-1")
def test_a_message_without_a_body_comes_back_without_one(
    bus: Bus, stage: Backstage, queue: str
) -> None:
    bus.sender(queue).send_messages(ServiceBusMessage(None, subject="bare"))
    (message,) = collect(bus.receiver(queue), 1)
    assert message.subject == "bare"
    assert b"".join(message.body or ()) == b""
    (shown,) = stage.peek(queue)
    assert shown.message.body is None


@pytest.mark.rule("MSG-1", "MSG-2")
def test_all_standard_properties_come_back(bus: Bus, queue: str) -> None:
    properties = {
        "message_id": "the-id",
        "user_id": b"the-user",
        "to": "the-destination",
        "subject": "the-subject",
        "reply_to": "the-reply",
        "correlation_id": "the-correlation",
        "content_type": "text/plain",
        "content_encoding": "gzip",
        "group_id": "the-group",
        "group_sequence": 7,
        "reply_to_group_id": "the-reply-group",
    }
    created = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    sent = AmqpAnnotatedMessage(
        data_body=[b"body"],
        properties=AmqpMessageProperties(
            **properties, creation_time=int(created.timestamp() * 1000)
        ),
        header=AmqpMessageHeader(durable=True, priority=7),
        footer={"sum": "abc"},
    )
    bus.sender(queue).send_messages(sent)
    (message,) = collect(bus.receiver(queue), 1)
    raw = message.raw_amqp_message
    for name, value in properties.items():
        received = getattr(raw.properties, name)
        assert (received if name == "user_id" else _text(received)) == value, name
    assert raw.properties.creation_time == int(created.timestamp() * 1000)
    assert (raw.header.durable, raw.header.priority) == (True, 7)
    assert {_text(key): _text(value) for key, value in raw.footer.items()} == {"sum": "abc"}


def _text(value: object) -> object:
    return value.decode() if isinstance(value, bytes) else value


@pytest.mark.rule("MSG-2", "SEED-38")
def test_a_message_without_an_id_gets_one_that_stays(stage: Backstage, queue: str) -> None:
    stage.send(queue, Message(body="one"))
    (shown,) = stage.peek(queue)
    receiver = stage.receiver(queue, credit=1)
    ids = []
    for _ in range(2):
        ((message, delivery),) = receiver.wait_for(1)
        ids.append(message.id)
        receiver.settle(delivery, Delivery.MODIFIED)
        receiver.link.flow(1)
    assert ids == [shown.message.id, shown.message.id]
    assert shown.message.id
