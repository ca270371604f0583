"""Messages as lines of JSON: there and back, and what is refused on the way."""

import json
import uuid
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partibus.amqp.codec.types import Array, Described, Int, Pairs, Symbol, Timestamp
from partibus.client.message import IncomingMessage, OutgoingMessage
from partibus.client.messages.json_form import (
    message_from_json,
    message_from_line,
    message_to_json,
    value_to_json,
)
from partibus.domain.errors import ArgumentError

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(codec="utf-8"), max_size=20),
    st.binary(max_size=20),
    st.uuids(),
    st.integers(0, 4_000_000_000_000).map(Timestamp),
)
texts = st.one_of(st.none(), st.text(st.characters(codec="utf-8"), max_size=20))


@settings(deadline=None)
@given(
    st.dictionaries(
        st.text(st.characters(codec="utf-8"), min_size=1, max_size=10), scalars, max_size=4
    ),
    st.binary(max_size=100),
    texts,
    texts,
    st.one_of(st.none(), st.integers(0, 2**32 - 1)),
)
def test_what_was_printed_can_be_sent(
    properties: dict[str, object],
    body: bytes,
    message_id: str | None,
    session_id: str | None,
    ttl_ms: int | None,
) -> None:
    message = OutgoingMessage(
        body=body,
        message_id=message_id,
        session_id=session_id,
        time_to_live_ms=ttl_ms,
        properties=dict(properties),
    )
    line = json.dumps(message_to_json(IncomingMessage(message.encode())))
    assert message_from_line(line, "here") == message


@pytest.mark.parametrize("body_type", ["value", "sequence"])
def test_bodies_that_are_no_bytes(body_type: Any) -> None:
    message = OutgoingMessage(body=[1, "x", None], body_type=body_type)
    shown = message_to_json(IncomingMessage(message.encode()))
    assert message_from_json(shown, "here") == message


def test_values_that_json_has_no_word_for() -> None:
    assert value_to_json(Described(Symbol("a"), 1)) == {"$described": ["a", 1]}
    assert value_to_json(Array(0x71, [Int(1)])) == [1]
    assert value_to_json(Pairs([(1, 2)])) == [[1, 2]]
    assert value_to_json({Symbol("k"): b"\xff"}) == {"k": {"$bytes": "/w=="}}
    assert value_to_json(uuid.UUID(int=1)) == {"$uuid": str(uuid.UUID(int=1))}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "is not JSON"),
        ("[]", "expected a JSON object"),
        ('{"bdy": 1}', "did you mean 'body'"),
        ('{"zzz": 1}', "put it into 'properties'"),
        ('{"subject": 1}', "'subject' must be a string"),
        ('{"properties": []}', "must be an object"),
        ('{"properties": {"a": {"$time": "x"}}}', "is not a valid time"),
        ('{"properties": {"a": {"$uuid": "x"}}}', "is not a UUID"),
        ('{"body_base64": "?"}', "not base64"),
        ('{"body_type": "odd"}', "data, value or sequence"),
        ('{"time_to_live_ms": "1s"}', "whole number"),
        ('{"scheduled_enqueue_time": "later"}', "is not a valid time"),
    ],
)
def test_mistakes_are_named(line: str, words: str) -> None:
    with pytest.raises(ArgumentError, match="line 3") as caught:
        message_from_line(line, "line 3")
    assert words in caught.value.text


def test_the_name_of_other_clients_is_understood() -> None:
    message = message_from_line('{"application_properties": {"a": 1}}', "here")
    assert message.properties == {"a": 1}


def test_what_the_bus_wrote_is_passed_over() -> None:
    message = message_from_line('{"body": "x", "sequence_number": 5, "lock_token": "y"}', "here")
    assert message == OutgoingMessage(body=b"x")
