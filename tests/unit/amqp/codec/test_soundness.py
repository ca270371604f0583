"""A new message's nested values are as deep and as long as they may be, and as they claim."""

import struct

import pytest

from partibus.amqp.codec.decode import NESTING_MAX, DecodeError
from partibus.amqp.codec.encode import encode_value
from partibus.amqp.codec.section_walk import parse_sections
from partibus.amqp.codec.soundness import require_sound
from partibus.amqp.codec.types import Array, Described, Symbol, ULong

INT, STRING8, LIST32 = 0x71, 0xA1, 0xD0
"""Element codes of arrays [1.6]."""


def body(encoded: bytes) -> bytes:
    return b"\x00\x53\x77" + encoded


def lists(depth: int) -> bytes:
    """Lists in lists; the innermost is empty and takes one byte."""
    encoded = b"\x45"
    for _ in range(depth - 1):
        encoded = b"\xd0" + struct.pack(">II", len(encoded) + 4, 1) + encoded
    return encoded


def array(count: int, items: bytes) -> bytes:
    return b"\xf0" + struct.pack(">II", len(items) + 4, count) + items


@pytest.mark.parametrize(
    "value",
    [
        None,
        "text",
        [],
        [1, ["two", {"three": [4.0]}], b"five"],
        {"a": {"b": []}},
        Described(Symbol("kind"), [1, 2]),
        Array(INT, [1, 2, 3]),
        Array(STRING8, ["a", "bc", ""]),
        Array(LIST32, [[1], ["two", []], []]),
        Array(INT, [1, 2], ULong(7)),
    ],
)
def test_what_an_encoder_writes_is_sound(value: object) -> None:
    require_sound(body(encode_value(value)))


def test_a_body_may_be_a_long_list() -> None:
    count = 1_000_000
    require_sound(body(b"\xd0" + struct.pack(">II", count + 4, count) + b"\x40" * count))
    require_sound(body(array(count, b"\x50" + bytes(count))))


def test_an_array_without_a_constructor_is_empty() -> None:
    require_sound(body(array(0, b"")))


def test_values_nest_up_to_a_depth() -> None:
    require_sound(body(lists(NESTING_MAX)))
    with pytest.raises(DecodeError, match="nested deeper than 64"):
        require_sound(body(lists(NESTING_MAX + 2)))
    with pytest.raises(DecodeError, match="nested deeper than 64"):
        require_sound(body(lists(10_000)))


def test_descriptors_nest_up_to_a_depth() -> None:
    require_sound(body(b"\x00\x40" * NESTING_MAX + b"\x40"))
    with pytest.raises(DecodeError):
        require_sound(body(b"\x00\x40" * (NESTING_MAX + 1) + b"\x40"))
    with pytest.raises(DecodeError):
        require_sound(body(array(1, b"\x00\x40" * 1_000 + b"\x40")))


@pytest.mark.parametrize(
    "encoded",
    [
        array(2**32 - 1, b"\x40"),
        array(2**32 - 1, b"\x71" + bytes(8)),
        array(3, b"\x71" + bytes(8)),
        array(1, b"\x71" + bytes(8)),
        array(2**32 - 1, b"\xa1" + b"\x00" * 8),
        array(2, b"\xa1\x05ab"),
        array(1, b"\x9f\x00"),
        array(1, b""),
        array(1, b"\x00"),
        array(1, b"\xd0" + struct.pack(">II", 4, 2**32 - 1)),
        b"\xd0" + struct.pack(">II", 4, 2**32 - 1),
        b"\xd0" + struct.pack(">II", 5, 2) + b"\x40",
        b"\xd0" + struct.pack(">II", 6, 1) + b"\x40\x40",
        b"\xd1" + struct.pack(">II", 5, 1) + b"\x40",
        b"\xd0" + struct.pack(">I", 2) + b"\x00\x00",
        b"\xc0\x00",
        b"\xc0\x05\x01\xa1\x20ab",
        b"\xd0\xff\xff\xff\xff\x00\x00\x00\x00",
        b"\x00\x40",
        b"\x3f",
    ],
)
def test_a_claim_that_cannot_be_is_refused(encoded: bytes) -> None:
    with pytest.raises(DecodeError):
        require_sound(body(encoded))


def test_only_nested_values_ask_for_the_check() -> None:
    data = b"\x00\x53\x75\xa0\x01a"
    for plain in (data, body(b"\xa1\x01a"), b"\x00\x53\x74\xc1\x07\x02\xa1\x01a\xa1\x01b" + data):
        assert not parse_sections(plain).has_nested
    for nested in (
        body(b"\xc0\x02\x01\x40"),
        body(b"\x00\x40\x40"),
        b"\x00\x53\x76\xc0\x02\x01\x40",
        b"\x00\x53\x72\xc1\x05\x02\xa3\x01a\x45" + data,
        b"\x00\x53\x71\xc1\x05\x02\xa3\x01a\x40" + data,
        data + b"\x00\x53\x78\xc1\x05\x02\xa3\x01a\x40",
    ):
        assert parse_sections(nested).has_nested
