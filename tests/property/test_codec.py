"""The codec holds for any value and for any bytes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partibus.amqp.codec.decode import DecodeError, decode_value, skip_value
from partibus.amqp.codec.encode import encode_value
from partibus.amqp.codec.sections import (
    annotation_items,
    decode_application_properties,
    decode_properties,
    parse_sections,
    split_batch,
)
from support.amqp.section_ids import message_id_and_group_id
from support.amqp.values import VALUES, same


@st.composite
def damaged(draw, whole: st.SearchStrategy[bytes]) -> bytes:
    """Bytes of a well-formed thing with some of them changed, so that errors lie deep."""
    data = bytearray(draw(whole))
    for _ in range(draw(st.integers(1, 4))):
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data)


def section(code: int, constructors: list[int]) -> st.SearchStrategy[bytes]:
    """A section with the descriptor right and the rest by chance."""
    return st.builds(
        lambda constructor, body: (
            bytes((0x00, 0x53, code, constructor, len(body) + 1, body[0] % 8 if body else 0)) + body
        ),
        st.sampled_from(constructors),
        st.binary(max_size=40),
    )


def field_bytes() -> st.SearchStrategy[bytes]:
    return st.lists(VALUES.map(encode_value), max_size=6).map(
        lambda items: (
            bytes((0xD0,))
            + (len(b"".join(items)) + 4).to_bytes(4, "big")
            + len(items).to_bytes(4, "big")
            + b"".join(items)
        )
    )


ENCODED = VALUES.map(encode_value)
PAYLOADS = st.one_of(
    st.lists(
        st.one_of(
            section(0x70, [0xC0, 0x45]),
            section(0x72, [0xC1]),
            section(0x73, [0xC0]),
            section(0x74, [0xC1]),
            field_bytes().map(lambda fields: b"\x00\x53\x73" + fields),
            st.binary(max_size=20).map(lambda body: b"\x00\x53\x75" + encode_value(body)),
            ENCODED.map(lambda value: b"\x00\x53\x77" + value),
        ),
        max_size=5,
    ).map(b"".join),
    st.binary(max_size=60),
)


@settings(deadline=None, max_examples=400)
@given(VALUES)
def test_any_value_comes_back_with_its_type(value):
    data = encode_value(value)
    decoded, end = decode_value(data, 0, len(data))
    assert end == len(data)
    assert same(decoded, value)
    assert encode_value(decoded) == data


@settings(deadline=None, max_examples=200)
@given(VALUES, st.binary(max_size=5), st.binary(max_size=5))
def test_a_value_is_found_between_other_bytes(value, before, after):
    data = encode_value(value)
    end = len(before) + len(data)
    decoded, stop = decode_value(before + data + after, len(before), end)
    assert stop == end
    assert same(decoded, value)
    assert skip_value(before + data + after, len(before), end) == end


@settings(deadline=None, max_examples=200)
@given(VALUES, st.data())
def test_a_value_cut_short_is_a_decode_error(value, data):
    whole = encode_value(value)
    cut = data.draw(st.integers(0, len(whole) - 1))
    for read in (decode_value, skip_value):
        with pytest.raises(DecodeError):
            read(whole[:cut], 0, cut)
        with pytest.raises(DecodeError):
            read(whole, 0, cut)


@settings(deadline=None, max_examples=600)
@given(st.one_of(st.binary(max_size=60), damaged(ENCODED)))
def test_any_bytes_are_read_or_refused(data):
    try:
        skipped = skip_value(data, 0, len(data))
    except DecodeError:
        skipped = -1
    try:
        value, end = decode_value(data, 0, len(data))
    except DecodeError:
        return
    assert skipped == end
    again, _ = decode_value(encode_value(value), 0, len(encode_value(value)))
    assert same(again, value)


@settings(deadline=None, max_examples=600)
@given(st.one_of(PAYLOADS, damaged(PAYLOADS.filter(len))))
def test_any_payload_is_parsed_or_refused(payload):
    try:
        sections = parse_sections(payload)
    except DecodeError:
        return
    assert 0 <= sections.bare_offset <= sections.bare_end <= len(payload)
    for read in (
        message_id_and_group_id,
        decode_properties,
        decode_application_properties,
        lambda _payload, found: annotation_items(found),
    ):
        try:
            read(payload, sections)
        except DecodeError:
            continue


@settings(deadline=None, max_examples=300)
@given(st.one_of(PAYLOADS, damaged(PAYLOADS.filter(len))))
def test_any_batch_is_split_or_refused(payload):
    try:
        messages = split_batch(payload)
    except DecodeError:
        return
    assert sum(map(len, messages)) <= len(payload)


@settings(deadline=None, max_examples=100)
@given(st.lists(st.binary(max_size=300), min_size=1, max_size=8))
def test_a_batch_gives_back_its_messages(messages):
    payload = b"".join(b"\x00\x53\x75" + encode_value(message) for message in messages)
    assert split_batch(payload) == messages
