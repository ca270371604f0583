"""Messages by names: what is written is what is read, and what is sent again is the same."""

import uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partibus.amqp.codec.encode import encode_symbol, encode_value
from partibus.amqp.codec.sections import encode_annotations, encode_header, split_batch
from partibus.amqp.codec.types import Int, Timestamp
from partibus.client.message import IncomingMessage, OutgoingMessage, encode_batch, encode_body

FULL = OutgoingMessage(
    body=b"hello",
    message_id="m",
    subject="s",
    content_type="text/plain",
    correlation_id="c",
    session_id="g",
    reply_to="r",
    reply_to_session_id="rg",
    to="t",
    partition_key="k",
    time_to_live_ms=5000,
    scheduled_ms=1_700_000_000_000,
    properties={"a": Int(1), "b": "x", "c": None, "d": uuid.UUID(int=7), "e": Timestamp(5)},
)


def test_every_field_arrives() -> None:
    message = IncomingMessage(FULL.encode())
    fields = message.properties
    assert (fields.message_id, fields.subject, fields.content_type) == ("m", "s", "text/plain")
    assert (fields.correlation_id, fields.group_id, fields.reply_to) == ("c", "g", "r")
    assert (fields.reply_to_group_id, fields.to) == ("rg", "t")
    assert (message.partition_key, message.scheduled_ms) == ("k", 1_700_000_000_000)
    assert message.time_to_live_ms == 5000
    assert message.application_properties == FULL.properties
    assert message.body() == ("data", b"hello")
    assert (message.state, message.delivery_count, message.lock_token) == ("active", 0, None)


def test_an_empty_message_has_nothing() -> None:
    message = IncomingMessage(OutgoingMessage().encode())
    assert message.properties.message_id is None
    assert (message.time_to_live_ms, message.enqueued_ms) == (None, None)
    assert message.body() == ("data", b"")


@pytest.mark.parametrize(("kind", "body"), [("value", {"a": [1, "x"]}), ("sequence", [1, "x"])])
def test_bodies_that_are_no_bytes(kind: str, body: object) -> None:
    payload = OutgoingMessage(body=body, body_type=kind).encode()  # type: ignore[arg-type]
    assert IncomingMessage(payload).body() == (kind, body)


@pytest.mark.parametrize("value", [b"\xa1\x02\xff\xfe", b"\x73\x29\x00\x00\x78"])
def test_a_body_that_cannot_be_read_is_its_bytes(value: bytes) -> None:
    sections = b"\x00\x53\x77" + value
    assert IncomingMessage(sections, None).body() == ("data", sections)


def test_several_data_sections_are_one_body() -> None:
    assert IncomingMessage(encode_body(b"a", "data") + encode_body(b"b", "data")).body() == (
        "data",
        b"ab",
    )


def test_a_batch_holds_its_messages() -> None:
    encoded = [OutgoingMessage(body=b"%d" % n).encode() for n in range(3)]
    envelope = encode_batch(FULL, encoded)
    assert split_batch(envelope) == encoded
    hints = IncomingMessage(envelope)
    assert (hints.properties.message_id, hints.properties.group_id) == ("m", "g")
    assert hints.partition_key == "k"


def dead_letter(body: bytes) -> IncomingMessage:
    """A message as the bus hands it out of a dead-letter queue."""
    annotations = encode_symbol("x-opt-sequence-number") + encode_value(9)
    annotations += encode_symbol("x-opt-partition-key") + encode_value("k")
    properties = {"DeadLetterReason": "r", "DeadLetterErrorDescription": "d", "own": Int(1)}
    message = OutgoingMessage(message_id="m", session_id="s", properties=dict(properties))
    bare = message.encode()[: -len(encode_body(b"", "data"))] + body
    head = encode_header(True, 4, 700, 3)
    return IncomingMessage(head + encode_annotations(annotations, 2) + bare)


@settings(deadline=None)
@given(st.one_of(st.binary(max_size=300), st.text(max_size=50)))
def test_sent_again_it_is_the_same_without_its_death(content: bytes | str) -> None:
    kind = "data" if isinstance(content, bytes) else "value"
    body = encode_body(content, kind)  # type: ignore[arg-type]
    again = IncomingMessage(dead_letter(body).resent())
    assert again.body() == (kind, content)
    assert again.application_properties == {"own": 1}
    assert isinstance(again.application_properties["own"], Int)
    assert (again.properties.message_id, again.properties.group_id) == ("m", "s")
    assert (again.partition_key, again.time_to_live_ms, again.delivery_count) == ("k", 700, 0)
    assert again.sequence_number == 0


def test_sent_again_under_another_id() -> None:
    again = IncomingMessage(dead_letter(encode_body(b"x", "data")).resent("new"))
    assert again.properties.message_id == "new"
