"""The smallest encoding of every type, and the values that have none."""

import enum
import math
import struct
import uuid

import pytest

from partibus.amqp.codec.decode import COMPOUND_COUNT_MAX, NESTING_MAX, ZERO_WIDTH_COUNT_MAX
from partibus.amqp.codec.encode import (
    EncodeError,
    encode_binary,
    encode_described_list,
    encode_list,
    encode_str,
    encode_symbol,
    encode_uint,
    encode_ulong,
    encode_value,
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
    Long,
    Pairs,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)


class Level(enum.IntEnum):
    HIGH = 3


SMALLEST = [
    (None, "40"),
    (True, "41"),
    (False, "42"),
    (UByte(255), "50ff"),
    (UShort(258), "600102"),
    (UInt(0), "43"),
    (UInt(255), "52ff"),
    (UInt(256), "7000000100"),
    (ULong(0), "44"),
    (ULong(255), "53ff"),
    (ULong(256), "800000000000000100"),
    (Byte(-1), "51ff"),
    (Short(-2), "61fffe"),
    (Int(-128), "5480"),
    (Int(128), "7100000080"),
    (Long(127), "557f"),
    (-129, "81ffffffffffffff7f"),
    (2**63 - 1, "817fffffffffffffff"),
    (Level.HIGH, "5503"),
    (1.5, "823ff8000000000000"),
    (Float(1.5), "723fc00000"),
    (Char("€"), "73000020ac"),
    (Timestamp(-1), "83ffffffffffffffff"),
    (uuid.UUID(int=1), "98" + "00" * 15 + "01"),
    (Decimal32(b"abcd"), "7461626364"),
    (Decimal64(b"abcdefgh"), "846162636465666768"),
    (Decimal128(bytes(16)), "94" + "00" * 16),
    (b"ab", "a0026162"),
    (bytes(256), "b000000100" + "00" * 256),
    ("é", "a102c3a9"),
    ("x" * 256, "b100000100" + "78" * 256),
    (Symbol("ab"), "a3026162"),
    (Symbol("é"), "a302c3a9"),
    (Symbol("x" * 256), "b300000100" + "78" * 256),
    ([], "45"),
    ([None, True], "c0030240" + "41"),
    ([None] * 254, "c0fffe" + "40" * 254),
    ([None] * 255, "d000000103000000ff" + "40" * 255),
    ({}, "c10100"),
    ({"a": 1}, "c10602a101615501"),
    (Pairs([(1, None), (True, None)]), "c106045501404140"),
    (Described(ULong(0x24), []), "00532445"),
    (Described(Described(Symbol("a"), 1), None), "0000a30161550140"),
    (Array(0x70, [UInt(1), 2]), "e00a02700000000100000002"),
    (Array(0xA3, [Symbol("a"), "bc"]), "e00702a30161026263"),
    (Array(0x40, [None] * 3), "e0020340"),
    (Array(0x41, [True]), "e0020141"),
    (Array(0x43, [UInt(0)] * 2), "e0020243"),
    (Array(0x45, [[], []]), "e0020245"),
    (Array(0x56, [True, False]), "e00402560100"),
    (Array(0x72, [1.5]), "e00601723fc00000"),
    (Array(0x73, ["€"]), "e0060173000020ac"),
    (Array(0x74, [b"abcd"]), "e006017461626364"),
    (Array(0x82, [1.5]), "e00a01823ff8000000000000"),
    (Array(0x70, []), "e0020070"),
    (Array(0x52, [UInt(1)], ULong(5)), "e00601005305" + "5201"),
    (Array(0x40, [None], (None,)), "e00401004040"),
    (Array(0x52, [1], (ULong(5), Symbol("a"))), "e00a0100530500a301615201"),
    (Array(0xC0, [[1], []]), "e00802c0030155010100"),
    (Array(0xC1, [{1: 2}, Pairs([])]), "e00a02c1050255015502" + "0100"),
    (Array(0xE0, [Array(0x50, [1]), Array(0x40, [])]), "e00902e003015001020040"),
]


@pytest.mark.parametrize(("value", "expected"), SMALLEST)
def test_each_value_takes_its_smallest_form(value, expected):
    assert encode_value(value).hex() == expected


def test_an_array_of_many_bytes_takes_the_wide_form():
    data = encode_value(Array(0x98, [uuid.UUID(int=n) for n in range(20)]))
    assert data[:10] == b"\xf0" + struct.pack(">II", 4 + 1 + 320, 20) + b"\x98"
    assert len(data) == 10 + 320


@pytest.mark.parametrize(
    "value",
    [
        UByte(256),
        UByte(-1),
        UShort(65536),
        UInt(2**32),
        UInt(-1),
        ULong(2**64),
        ULong(-1),
        Byte(128),
        Short(-32769),
        Int(2**31),
        Long(2**63),
        -(2**63) - 1,
        Timestamp(2**63),
        Float(1e300),
        Char(""),
        Char("ab"),
        Char("\ud800"),
        "\ud800",
        Symbol("\ud800"),
        Decimal32(b"abc"),
        Decimal64(b"abc"),
        Decimal128(b"abc"),
        object(),
        (1, 2),
        {1, 2},
        bytearray(b"a"),
        [object()],
        {"a": object()},
        {object(): 1},
        Described(object(), 1),
        Array(0x70, ["a"]),
        Array(0x70, [-1]),
        Array(0x56, [2]),
        Array(0x41, [False]),
        Array(0x45, [[1]]),
        Array(0x98, [b"a"]),
        Array(0xA0, ["a"]),
        Array(0xA1, [b"a"]),
        Array(0xA1, ["x" * 256]),
        Array(0xC0, [["x" * 256]]),
        Array(0xC0, [{}]),
        Array(0xC1, [[]]),
        Array(0xE0, [[]]),
        Array(0x72, [1e300]),
        Array(0x00, []),
        Array(0x57, []),
        Array(256, []),
        Array(0x40, [None] * (ZERO_WIDTH_COUNT_MAX + 1)),
        [None] * (COMPOUND_COUNT_MAX + 1),
    ],
)
def test_a_value_without_an_amqp_form_is_refused(value):
    with pytest.raises(EncodeError):
        encode_value(value)


def nested(depth: int) -> object:
    value: object = None
    for _ in range(depth):
        value = [value]
    return value


def test_nesting_is_limited():
    assert encode_value(nested(NESTING_MAX))
    for wrap in (
        lambda v: v,
        lambda v: {1: v},
        lambda v: Described(1, v),
        lambda v: Array(0xD0, [v]),
    ):
        with pytest.raises(EncodeError):
            encode_value(wrap(nested(NESTING_MAX + 1)))


def test_a_list_that_holds_itself_is_refused():
    loop: list[object] = []
    loop.append(loop)
    with pytest.raises(EncodeError):
        encode_value(loop)


def test_not_a_number_is_written():
    assert math.isnan(struct.unpack(">d", encode_value(math.nan)[1:])[0])
    assert math.isnan(struct.unpack(">f", encode_value(Float(math.nan))[1:])[0])


def test_the_small_encoders_write_what_encode_value_writes():
    assert encode_uint(70_000) == encode_value(UInt(70_000))
    assert encode_ulong(70_000) == encode_value(ULong(70_000))
    assert encode_str("é") == encode_value("é")
    assert encode_symbol("word") == encode_value(Symbol("word"))
    assert encode_binary(b"data") == encode_value(b"data")
    assert encode_list([b"\x40", b"\x41"]) == encode_value([None, True])


def test_a_described_list_has_the_small_descriptor():
    assert encode_described_list(0x24, []).hex() == "00532445"
    assert encode_described_list(0x10, [b"\x40", b"\x43"]).hex() == "005310c003024043"
    wide = encode_described_list(0x10, [b"\x40"] * 256)
    assert wide[:4].hex() == "005310d0"
    assert wide == encode_value(Described(ULong(0x10), [None] * 256))
