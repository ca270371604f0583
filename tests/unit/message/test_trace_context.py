"""The context of a trace in a message's application properties."""

import pytest

from partibus.amqp.codec.properties import MessageProperties
from partibus.amqp.codec.sections import encode_application_properties, encode_properties
from partibus.message.envelope import to_stored
from partibus.message.trace_context import context_of, parse_traceparent, traced_message

TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"
SAMPLED = f"00-{TRACE}-{SPAN}-01"


def message(body: bytes = b"x", **application: object) -> bytes:
    head = encode_properties(MessageProperties(message_id="m-1"))
    if application:
        head += encode_application_properties(application)
    return head + b"\x00\x53\x75\xa0" + bytes([len(body)]) + body


def test_a_traceparent_is_taken_apart() -> None:
    context = parse_traceparent(SAMPLED)
    assert context is not None
    assert (context.trace_id, context.span_id) == (int(TRACE, 16), int(SPAN, 16))
    assert context.is_sampled


@pytest.mark.parametrize(
    "text",
    [
        "",
        "|legacy.id.",
        SAMPLED.upper(),
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"{SAMPLED}-more",
        SAMPLED[:-1],
    ],
)
def test_what_is_not_well_formed_begins_no_trace(text: str) -> None:
    assert parse_traceparent(text) is None


def test_a_later_version_may_have_further_fields() -> None:
    assert parse_traceparent(f"01-{TRACE}-{SPAN}-01-more") is not None


def test_traceparent_wins_over_the_older_name() -> None:
    other = SAMPLED.replace(SPAN, "1" * 16)
    context = context_of({"Diagnostic-Id": other, "traceparent": SAMPLED, "tracestate": "a=b"})
    assert context is not None
    assert context.span_id == int(SPAN, 16)
    assert context.state == "a=b"
    older = context_of({"Diagnostic-Id": other.encode(), "traceparent": "nonsense"})
    assert older is not None
    assert older.span_id == int("1" * 16, 16)


def test_a_tracestate_that_is_too_long_is_left_out() -> None:
    context = context_of({"traceparent": SAMPLED, "tracestate": "a=" + "b" * 512})
    assert context is not None
    assert context.state == ""


def test_a_stored_message_tells_its_trace_and_its_id() -> None:
    payload = message(traceparent=SAMPLED)
    traced = traced_message(to_stored(payload).body)
    assert traced is not None
    assert traced.message_id == "m-1"
    assert traced.context.trace_id == int(TRACE, 16)


def test_messages_that_are_not_sampled_are_not_traced() -> None:
    unsampled = message(traceparent=SAMPLED[:-1] + "0")
    assert traced_message(to_stored(unsampled).body) is None
    assert traced_message(to_stored(message()).body) is None
    # The word in a body is not a property.
    assert traced_message(to_stored(message(b"traceparent")).body) is None
