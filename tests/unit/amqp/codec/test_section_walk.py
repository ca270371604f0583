"""Sections in the order that clients write them, put in the order of the standard [3.2]."""

import pytest

from partibus.amqp.codec.decode import DecodeError
from partibus.amqp.codec.encode import encode_value
from partibus.amqp.codec.sections import (
    annotation_items,
    delivery_annotation_pairs,
    parse_in_order,
    parse_sections,
)
from partibus.amqp.codec.types import Described, Symbol, UInt, ULong


def section(code: int, value: object) -> bytes:
    return encode_value(Described(ULong(code), value))


HEADER = section(0x70, [True, None, UInt(60_000)])
DELIVERY_ANNOTATIONS = section(0x71, {Symbol("hop"): 1})
ANNOTATIONS = section(0x72, {Symbol("x-opt-partition-key"): "p"})
PROPERTIES = section(0x73, ["id-1", None, "to"])
APPLICATION = section(0x74, {"kind": "order"})
DATA = section(0x75, b"one")
SEQUENCE = section(0x76, [1])
VALUE = section(0x77, "text")
FOOTER = section(0x78, {Symbol("sum"): 1})
WHOLE = HEADER + DELIVERY_ANNOTATIONS + ANNOTATIONS + PROPERTIES + APPLICATION + DATA + FOOTER


@pytest.mark.parametrize(
    "payload",
    [
        # rhea, and so the vendor's JavaScript client
        HEADER + DELIVERY_ANNOTATIONS + ANNOTATIONS + PROPERTIES + APPLICATION + FOOTER + DATA,
        # the vendor's Python client
        HEADER + ANNOTATIONS + PROPERTIES + APPLICATION + DATA + FOOTER + DELIVERY_ANNOTATIONS,
        FOOTER + DATA + APPLICATION + PROPERTIES + ANNOTATIONS + DELIVERY_ANNOTATIONS + HEADER,
    ],
)
def test_sections_in_the_order_of_a_client_are_put_in_order(payload: bytes) -> None:
    ordered, found = parse_in_order(payload)
    assert found.durable and found.ttl_ms == 60_000
    assert annotation_items(found) == {"x-opt-partition-key": "p"}
    assert ordered[found.bare_offset : found.bare_end] == PROPERTIES + APPLICATION + DATA + FOOTER
    assert ordered[found.delivery_offset : found.delivery_end] == DELIVERY_ANNOTATIONS
    assert delivery_annotation_pairs(ordered, found) == (DELIVERY_ANNOTATIONS[6:], 1)


@pytest.mark.parametrize("body", [DATA + section(0x75, b"two"), SEQUENCE + SEQUENCE, VALUE])
def test_the_parts_of_a_body_stay_in_their_order(body: bytes) -> None:
    ordered, found = parse_in_order(FOOTER + body)
    assert ordered == body + FOOTER
    assert found.body_offset == 0


def test_what_is_in_order_is_not_copied() -> None:
    assert parse_in_order(WHOLE)[0] is WHOLE
    assert delivery_annotation_pairs(DATA, parse_sections(DATA)) == (b"", 0)


@pytest.mark.parametrize(
    "payload",
    [
        HEADER + HEADER,
        PROPERTIES + PROPERTIES,
        DATA + SEQUENCE,
        FOOTER + VALUE + DATA,
        FOOTER + FOOTER + DATA,
        FOOTER + DATA[:-1],
        DELIVERY_ANNOTATIONS + DATA + DELIVERY_ANNOTATIONS,
        FOOTER + section(0x79, []) + DATA,
    ],
)
def test_what_no_order_makes_a_message_is_refused(payload: bytes) -> None:
    with pytest.raises(DecodeError):
        parse_in_order(payload)


@pytest.mark.parametrize("last", [b"\x00", b"\x00\x53", b"\x00\x80"])
def test_a_section_out_of_order_that_is_cut_short_is_refused(last: bytes) -> None:
    with pytest.raises(DecodeError, match="truncated"):
        parse_in_order(FOOTER + HEADER + last)
