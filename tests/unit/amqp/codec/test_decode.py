"""Every constructor in every width, and bytes that are no value."""

import math
import uuid

import pytest

from partibus.amqp.codec.decode import (
    COMPOUND_COUNT_MAX,
    NESTING_MAX,
    ZERO_WIDTH_COUNT_MAX,
    DecodeError,
    decode_value,
    skip_value,
)
from partibus.amqp.codec.types import (
    Array,
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Float,
    Int,
    Pairs,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)
from support.amqp.values import same

CONSTRUCTORS = [
    ("40", None),
    ("41", True),
    ("42", False),
    ("5601", True),
    ("5600", False),
    ("50ff", UByte(255)),
    ("60ffff", UShort(65535)),
    ("43", UInt(0)),
    ("52ff", UInt(255)),
    ("70ffffffff", UInt(2**32 - 1)),
    ("44", ULong(0)),
    ("53ff", ULong(255)),
    ("80ffffffffffffffff", ULong(2**64 - 1)),
    ("51ff", Byte(-1)),
    ("617fff", Short(32767)),
    ("54ff", Int(-1)),
    ("71fffffffe", Int(-2)),
    ("55ff", -1),
    ("81fffffffffffffffe", -2),
    ("723fc00000", Float(1.5)),
    ("823ff8000000000000", 1.5),
    ("7461626364", Decimal32(b"abcd")),
    ("846162636465666768", Decimal64(b"abcdefgh")),
    ("94" + "61" * 16, Decimal128(b"a" * 16)),
    ("730001f600", Char("\U0001f600")),
    ("83ffffffffffffffff", Timestamp(-1)),
    ("98" + "00" * 15 + "07", uuid.UUID(int=7)),
    ("a00161", b"a"),
    ("b00000000161", b"a"),
    ("a102c3a9", "é"),
    ("b100000002c3a9", "é"),
    ("a30161", Symbol("a")),
    ("b30000000161", Symbol("a")),
    ("a302c3a9", Symbol("é")),
    ("45", []),
    ("c00100", []),
    ("d00000000400000000", []),
    ("c003024041", [None, True]),
    ("d0000000060000000240" + "41", [None, True]),
    ("c10100", {}),
    ("c10602a101615501", {"a": 1}),
    ("d10000000900000002a101615501", {"a": 1}),
    ("e0020070", Array(0x70, [])),
    ("e00100", Array(0x40, [])),
    ("e00402520102", Array(0x52, [UInt(1), UInt(2)])),
    ("f0000000070000000252" + "0102", Array(0x52, [UInt(1), UInt(2)])),
    ("e0020340", Array(0x40, [None, None, None])),
    ("e0020341", Array(0x41, [True, True, True])),
    ("e0020243", Array(0x43, [UInt(0), UInt(0)])),
    ("e0020245", Array(0x45, [[], []])),
    ("e006010053055201", Array(0x52, [UInt(1)], ULong(5))),
    ("00532445", Described(ULong(0x24), [])),
    ("00a3016140", Described(Symbol("a"), None)),
    ("0000a30161550140", Described(Described(Symbol("a"), 1), None)),
    ("00a3016100a3016240", Described(Symbol("a"), Described(Symbol("b"), None))),
]


@pytest.mark.parametrize(("data", "expected"), CONSTRUCTORS)
def test_each_constructor_gives_its_type(data, expected):
    raw = bytes.fromhex(data)
    value, end = decode_value(raw, 0, len(raw))
    assert same(value, expected)
    assert end == len(raw)
    assert skip_value(raw, 0, len(raw)) == len(raw)


@pytest.mark.parametrize(
    "key_pairs",
    [
        "5501404140",  # long 1 and true
        "5501405201" + "40",  # long 1 and uint 1
        "a1016140a3016140",  # string a and symbol a
        "45404540",  # a list is no key of a dict
        "5501405501" + "40",  # twice the same
    ],
)
def test_a_map_that_a_dict_would_lose_stays_whole(key_pairs):
    body = bytes.fromhex(key_pairs)
    raw = bytes((0xC1, len(body) + 1, 4)) + body
    value, _ = decode_value(raw, 0, len(raw))
    assert isinstance(value, Pairs)
    assert len(value.items) == 2


def test_not_a_number_is_read():
    raw = bytes.fromhex("727fc00000")
    value, _ = decode_value(raw, 0, len(raw))
    assert isinstance(value, Float)
    assert math.isnan(value)


UNKNOWN = sorted(
    set(range(1, 256))
    - {*range(0x40, 0x46), *range(0x50, 0x57), 0x60, 0x61, *range(0x70, 0x75), *range(0x80, 0x85)}
    - {0x94, 0x98, 0xA0, 0xA1, 0xA3, 0xB0, 0xB1, 0xB3, 0xC0, 0xC1, 0xD0, 0xD1, 0xE0, 0xF0}
)


@pytest.mark.parametrize("code", UNKNOWN)
def test_a_constructor_without_a_type_is_refused(code):
    raw = bytes((code, 0x02)) + bytes(40)
    array = bytes((0xE0, 0x02, 0x00, code))
    with pytest.raises(DecodeError):
        decode_value(raw, 0, len(raw))
    with pytest.raises(DecodeError):
        skip_value(raw, 0, len(raw))
    with pytest.raises(DecodeError):
        decode_value(array, 0, len(array))


@pytest.mark.parametrize(
    "data",
    [
        "",
        "00",
        "0053",
        "005324",
        "5602",  # neither true nor false
        "730000d800",  # half of a surrogate pair
        "7300110000",  # beyond Unicode
        "a101ff",  # not UTF-8
        "a301ff",
        "b100000001ff",
        "a102",
        "b0ffffffff",
        "c000",  # no room for the count
        "d00000000000000000",
        "c00101",  # an item is missing
        "c0020240",
        "c003014040",  # an item too many
        "c1020140",  # a key without a value
        "c0050140c000",
        "e00101",  # items without a constructor
        "e0020100",  # a descriptor is missing
        "e003015640",  # neither true nor false, in an array
        "e0050240" + "4040",  # bytes for items that take none
        "e0020152",
        "d0ffffffff00000001" + "40",
    ],
)
def test_malformed_bytes_are_refused(data):
    raw = bytes.fromhex(data)
    with pytest.raises(DecodeError):
        decode_value(raw, 0, len(raw))


def test_an_array_element_must_end_inside_the_array():
    raw = bytes.fromhex("e00301a005") + bytes(10)
    with pytest.raises(DecodeError):
        decode_value(raw, 0, len(raw))


@pytest.mark.parametrize("read", [decode_value, skip_value])
@pytest.mark.parametrize("data", ["5201", "a10161", "b100000001" + "61", "c00100", "00532445"])
def test_nothing_is_read_beyond_the_end(read, data):
    raw = bytes.fromhex(data)
    for end in range(len(raw)):
        with pytest.raises(DecodeError):
            read(raw, 0, end)
    with pytest.raises(DecodeError):
        read(raw, 0, len(raw) + 1)


def lists(depth: int) -> bytes:
    data = b"\x40"
    for _ in range(depth):
        data = b"\xd0" + (len(data) + 4).to_bytes(4, "big") + b"\x00\x00\x00\x01" + data
    return data


def test_nesting_is_limited():
    deepest = lists(NESTING_MAX)
    decode_value(deepest, 0, len(deepest))
    for raw in (lists(NESTING_MAX + 1), b"\x00" * 100_000, b"\x00\x40" * 50_000 + b"\x40"):
        with pytest.raises(DecodeError):
            decode_value(raw, 0, len(raw))


def test_descriptors_are_stepped_over_as_deep_as_they_are_read():
    deepest = b"\x00" * NESTING_MAX + b"\x40" * (NESTING_MAX + 1)
    assert decode_value(deepest, 0, len(deepest))[1] == len(deepest)
    assert skip_value(deepest, 0, len(deepest)) == len(deepest)
    deeper = b"\x00" * (NESTING_MAX + 1) + b"\x40" * (NESTING_MAX + 2)
    for read in (decode_value, skip_value):
        with pytest.raises(DecodeError):
            read(deeper, 0, len(deeper))


def test_descriptors_of_an_array_are_limited():
    body = b"\x00\x40" * 10_000 + b"\x40"
    raw = b"\xf0" + (len(body) + 4).to_bytes(4, "big") + b"\x00\x00\x00\x00" + body
    with pytest.raises(DecodeError):
        decode_value(raw, 0, len(raw))


@pytest.mark.parametrize("code", [0x40, 0x41, 0x42, 0x43, 0x44, 0x45])
def test_items_that_take_no_bytes_are_limited(code):
    def array(count: int) -> bytes:
        return b"\xf0\x00\x00\x00\x05" + count.to_bytes(4, "big") + bytes((code,))

    value, _ = decode_value(array(ZERO_WIDTH_COUNT_MAX), 0, 10)
    assert isinstance(value, Array)
    assert len(value.items) == ZERO_WIDTH_COUNT_MAX
    for count in (ZERO_WIDTH_COUNT_MAX + 1, 2**32 - 1):
        with pytest.raises(DecodeError):
            decode_value(array(count), 0, 10)


@pytest.mark.parametrize("code", [0xD0, 0xF0])
def test_items_are_limited(code):
    def compound(count: int) -> bytes:
        body = b"\x50" + bytes(count) if code == 0xF0 else b"\x40" * count
        return bytes((code,)) + (len(body) + 4).to_bytes(4, "big") + count.to_bytes(4, "big") + body

    most = compound(COMPOUND_COUNT_MAX)
    assert decode_value(most, 0, len(most))[1] == len(most)
    more = compound(COMPOUND_COUNT_MAX + 1)
    with pytest.raises(DecodeError):
        decode_value(more, 0, len(more))
    assert skip_value(more, 0, len(more)) == len(more)
