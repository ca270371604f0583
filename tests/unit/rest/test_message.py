"""Messages between HTTP and AMQP: no input breaks the encoding, and what went in comes out."""

import json
import uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partibus.amqp.codec.encode import encode_value
from partibus.domain.errors import ArgumentError, BusError
from partibus.fragment.message import Held
from partibus.message.envelope import to_stored
from partibus.rest.batch import is_batch, read_batch
from partibus.rest.broker_properties import SentProperties, parse_header
from partibus.rest.message import Received, decode_message, encode_message

TOKEN = uuid.UUID(int=1)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
NAMES = st.sampled_from(
    (
        *("MessageId", "SessionId", "Label", "TimeToLive", "TimeToLiveTimeSpan", "ContentType"),
        *("ScheduledEnqueueTimeUtc", "PartitionKey", "Other"),
    )
)
BROKER = st.dictionaries(NAMES, JSON, max_size=5)


def received(payload: bytes, overlay: None = None) -> Received:
    held = Held(7, 0, 0, 784_111_777_000, 0, 2, overlay)
    held.locked_until_ms = 784_111_837_000
    return decode_message(to_stored(payload).body, held, 7, TOKEN, True)


def test_what_went_in_comes_out() -> None:
    properties = SentProperties(
        message_id="m", label="l", session_id="s", content_type="text/plain", ttl_ms=40_000
    )
    out = received(encode_message(b"body", properties, {"a": 1, "b": "two"}))
    assert (out.body, out.content_type, out.message_id) == (b"body", "text/plain", "m")
    assert out.application == {"a": 1, "b": "two"}
    assert json.loads(out.broker_properties) == {
        "DeliveryCount": 3,
        "EnqueuedSequenceNumber": 7,
        "EnqueuedTimeUtc": "Sun, 06 Nov 1994 08:49:37 GMT",
        "MessageId": "m",
        "SequenceNumber": 7,
        "State": "Active",
        "Label": "l",
        "SessionId": "s",
        "LockToken": str(TOKEN),
        "LockedUntilUtc": "Sun, 06 Nov 1994 08:50:37 GMT",
        "TimeToLive": 40.0,
    }


@settings(deadline=None)
@given(BROKER)
def test_any_json_makes_a_message_or_is_refused(given_properties: dict[str, object]) -> None:
    try:
        properties = parse_header(json.dumps(given_properties))
        out = received(encode_message(b"x", properties, {}))
    except BusError:
        return
    assert out.body == b"x"
    assert out.broker_properties.isascii() and out.broker_properties.isprintable()


@settings(deadline=None)
@given(st.lists(st.fixed_dictionaries({}, optional={"Body": JSON, "UserProperties": JSON})))
def test_any_batch_is_messages_or_refused(items: list[dict[str, object]]) -> None:
    try:
        payloads = read_batch(json.dumps(items).encode())
    except ArgumentError:
        return
    assert len(payloads) == len(items)
    for payload in payloads:
        received(payload)


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_a_batch_or_refused(raw: bytes) -> None:
    try:
        assert read_batch(raw)
    except ArgumentError as error:
        assert "atch" in error.text


@pytest.mark.parametrize(
    ("text", "ttl_ms"),
    [
        ("40", 40_000),
        ("0.5", 500),
        ('"00:00:40"', 40_000),
        ('"0.00:00:40"', 40_000),
        ('"1.02:03:04.5"', 93_784_500),
        ("1e300", 0xFFFF_FFFE),
    ],
)
def test_times_to_live(text: str, ttl_ms: int) -> None:
    assert parse_header(f'{{"TimeToLive": {text}}}').ttl_ms == ttl_ms


@pytest.mark.parametrize(
    "text", ["Sun, 06 Nov 1994 08:49:37 GMT", "1994-11-06T08:49:37Z", "1994-11-06T09:49:37+01:00"]
)
def test_times_of_scheduling(text: str) -> None:
    header = json.dumps({"ScheduledEnqueueTimeUtc": text})
    assert parse_header(header).scheduled_ms == 784_111_777_000


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b"\x00\x53\x77" + encode_value("text"), b"text"),
        (b"\x00\x53\x77" + encode_value(b"\x00"), b"\x00"),
        (b"\x00\x53\x77" + encode_value(None), b"null"),
        (b"\x00\x53\x77" + encode_value({"a": [1, TOKEN]}), b'{"a": [1, "%s"]}'),
        (b"\x00\x53\x76" + encode_value([1]) + b"\x00\x53\x76" + encode_value([2]), b"[[1], [2]]"),
        (b"\x00\x53\x75\xa0\x01a\x00\x53\x75\xa0\x01b", b"ab"),
        (b"", b""),
    ],
)
def test_bodies_of_amqp(body: bytes, shown: bytes) -> None:
    if b"%s" in shown:
        shown = shown % str(TOKEN).encode()
    assert received(body).body == shown


def test_what_is_a_batch() -> None:
    assert is_batch("application/vnd.microsoft.servicebus.json")
    assert is_batch("Application/VND.Microsoft.ServiceBus.JSON ")
    assert not is_batch("application/json")
    assert not is_batch(None)
    with pytest.raises(ArgumentError):
        is_batch("application/vnd.microsoft.servicebus.json;charset=utf-8")
