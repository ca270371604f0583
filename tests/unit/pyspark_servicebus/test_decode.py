"""Rows made of parts are the rows made of whole messages, for any message."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partibus.amqp.codec import types as amqp
from partibus.amqp.codec.encode import encode_compound, encode_symbol, encode_value
from partibus.amqp.codec.sections import encode_application_properties
from partibus.bulk.record_batches import SCHEMAS, record_batch
from partibus.bulk.requests import Ticket
from partibus.client.message import OutgoingMessage
from partibus.fragment.message import Held, MessageState, Overlay
from partibus.message.envelope import to_stored
from partibus.message.overlay import overlay_pairs
from pyspark_servicebus.errors import UnreadableMessage
from pyspark_servicebus.schema import COLUMNS
from pyspark_servicebus.source.decode import Decoder

TEXTS = st.none() | st.text(max_size=12)
VALUES: st.SearchStrategy[object] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-200, 200),
    st.floats(allow_nan=False),
    st.text(max_size=300),
    st.binary(max_size=20),
    st.uuids(),
    st.integers(-(2**31), 2**31 - 1).map(amqp.Int),
    st.integers(0, 2**40).map(amqp.Timestamp),
    st.text("abc", max_size=5).map(amqp.Symbol),
)
BODIES = st.binary(max_size=300) | st.binary(min_size=256, max_size=400)
PROPERTIES = st.dictionaries(st.text(max_size=8), VALUES, max_size=5)
MESSAGES = st.builds(
    OutgoingMessage,
    body=BODIES,
    message_id=TEXTS,
    session_id=st.sampled_from([None, "k"]),
    subject=TEXTS,
    content_type=st.none() | st.text("abc/", max_size=9),
    properties=PROPERTIES,
).map(OutgoingMessage.encode)


def annotated(message: bytes) -> bytes:
    pairs = {"x-opt-partition-key": "k", "x-own": 7}
    encoded = b"".join(encode_symbol(key) + encode_value(value) for key, value in pairs.items())
    return bytes((0, 0x53, 0x72)) + encode_compound(0xC1, 2 * len(pairs), encoded) + message


VALUE_BODY = bytes((0, 0x53, 0x77)) + encode_value({"a": [1, "x"]})
SEQUENCE_BODY = bytes((0, 0x53, 0x76)) + encode_value([1, 2]) + bytes((0, 0x53, 0x76, 0x45))
TWO_DATA = b"\x00\x53\x75\xa0\x01a\x00\x53\x75\xa0\x02bc"
LONG_DESCRIPTOR = b"\x00\x80" + (0x74).to_bytes(8, "big") + b"\xc1\x07\x02\xa1\x01a\xa1\x01b"
MANY = encode_application_properties({f"name-{n}": n for n in range(40)})
TWICE = b"\x00\x53\x74\xc1\x0d\x04\xa1\x01a\xa1\x01b\xa1\x01a\xa1\x01c"
ODD = [
    b"",
    VALUE_BODY,
    SEQUENCE_BODY,
    TWO_DATA,
    annotated(VALUE_BODY),
    LONG_DESCRIPTOR + TWO_DATA,
    MANY + TWO_DATA,
    TWICE + TWO_DATA,
    encode_application_properties({"DeadLetterReason": "sour", "x": None}),
]


def held(number: int, **given: Any) -> Held:
    made = Held(number, 0, 0, 1_700_000_000_000 + number, 0, number % 3, None)
    for name, value in given.items():
        setattr(made, name, value)
    return made


def batches(messages: list[tuple[Held, bytes]]) -> tuple[list[Any], list[Any]]:
    """The rows of whole messages, and of parts."""
    rows = []
    for form in ("message", "parts"):
        ticket = Ticket("q", fragment=3, mode="range", form=form)
        read = record_batch(ticket, ([h for h, _ in messages], [body for _, body in messages]))
        assert read.schema == SCHEMAS[form]
        rows.append(Decoder(tuple(COLUMNS), "q").batch(read).to_pylist())
    return rows[0], rows[1]


@settings(deadline=None, max_examples=60)
@given(st.lists(st.one_of(MESSAGES, MESSAGES.map(annotated), st.sampled_from(ODD)), max_size=6))
def test_parts_are_the_same_rows(messages: list[bytes]) -> None:
    if not messages:
        return
    stored = [(held(n), to_stored(raw).body) for n, raw in enumerate(messages, 1)]
    whole, parts = batches(stored)
    assert parts == whole


def test_what_the_bus_has_changed() -> None:
    stored = to_stored(OutgoingMessage(body=b"x", message_id="m", properties={"a": 1}).encode())
    overlay = Overlay(overlay_pairs({"a": "two"}), "sour", "milk")
    messages = [
        (held(1, overlay=overlay), stored.body),
        (held(2, expires_ms=1_700_000_009_000), stored.body),
        (held(3, state=MessageState.DEFERRED), stored.body),
        (held(4), stored.body),
    ]
    whole, parts = batches(messages)
    assert parts == whole
    assert parts[0]["dead_letter_reason"] == "sour"
    assert dict(parts[0]["application_properties"])["a"] == "two"
    assert parts[2]["state"] == "deferred"
    assert parts[1]["time_to_live_ms"] == 8998


def test_columns_that_are_not_asked_for_are_not_sent() -> None:
    assert Decoder(("subject", "body"), "q").form == "parts"
    assert Decoder(("subject", "sequence_number"), "q").form == "heads"
    assert Decoder(("body", "raw_amqp"), "q").form == "message"
    assert "body" not in SCHEMAS["heads"].names


def test_few_columns() -> None:
    stored = to_stored(OutgoingMessage(body=b"x", message_id="m", subject="s").encode())
    ticket = Ticket("q", fragment=3, mode="range", form="heads")
    read = record_batch(ticket, ([held(5)], [stored.body]))
    for names in (("subject",), ("fragment", "entity"), ("partition_key", "dead_letter_reason")):
        found = Decoder(names, "q").batch(read)
        assert found.schema.names == list(names)
        assert found.num_rows == 1


@pytest.mark.parametrize("form", ["message", "parts"])
def test_a_message_that_no_row_can_be_made_of_is_named(form: str) -> None:
    fine = OutgoingMessage(body=b"x", message_id="fine").encode()
    marked = OutgoingMessage(body=b"x", message_id="fine", subject="##").encode()
    stored = [to_stored(message).body for message in (fine, marked, fine)]
    stored[1] = stored[1].replace(b"##", b"\xff\xfe")  # as an earlier release has stored it
    ticket = Ticket("q", fragment=3, mode="range", form=form)
    read = record_batch(ticket, ([held(n) for n in (7, 8, 9)], stored))
    with pytest.raises(UnreadableMessage, match="in fragment 3 of 'q' cannot become a row") as bad:
        Decoder(tuple(COLUMNS), "q").batch(read)
    assert bad.value.sequence_number == 3 << 48 | 8
    if form == "parts":
        rows = Decoder(("body", "message_id"), "q").batch(read)
        assert isinstance(rows, pa.RecordBatch)
        assert rows.num_rows == 3
