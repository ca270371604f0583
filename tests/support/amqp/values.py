"""Values of every AMQP type, and the question whether two of them are the same."""

import math
import uuid

from hypothesis import strategies as st

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


def same(a: object, b: object) -> bool:
    """Equal in value and in AMQP type; `Long` and `int` are one type."""
    if _kind(a) is not _kind(b):
        return False
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return same(list(a), list(b)) and same(list(a.values()), list(b.values()))
    if isinstance(a, Pairs):
        return same([list(pair) for pair in a.items], [list(pair) for pair in b.items])
    if isinstance(a, tuple):
        return same(list(a), list(b))
    if isinstance(a, Described):
        return same(a.descriptor, b.descriptor) and same(a.value, b.value)
    if isinstance(a, Array):
        return a.code == b.code and same(a.descriptor, b.descriptor) and same(a.items, b.items)
    if isinstance(a, float):
        if math.isnan(a):
            return math.isnan(b)
        return a == b and math.copysign(1, a) == math.copysign(1, b)
    return a == b


def _kind(value: object) -> type:
    return int if type(value) is Long else type(value)


def as_map(pairs: list[tuple[object, object]]) -> dict | Pairs:
    """The form in which a map is decoded: a dict unless that would lose or refuse a key."""
    try:
        merged = dict(pairs)
    except TypeError:
        return Pairs(pairs)
    return merged if len(merged) == len(pairs) else Pairs(pairs)


def _signed(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def _unsigned(bits: int) -> st.SearchStrategy[int]:
    return st.one_of(
        st.integers(0, 300).filter(lambda n: n < 1 << bits), st.integers(0, (1 << bits) - 1)
    )


# As a key, not-a-number is one or several to a dict, depending on which object it is.
_FLOATS32 = st.floats(width=32, allow_nan=False)
_FLOATS64 = st.floats(allow_nan=False)

CHARS = st.characters(exclude_categories=["Cs"]).map(Char)
TEXTS = st.one_of(st.text(max_size=20), st.integers(250, 260).map(lambda n: "x" * n))
WORDS = st.text(st.characters(codec="ascii"), max_size=20).map(Symbol)
SYMBOLS = st.one_of(WORDS, st.integers(250, 260).map(lambda n: Symbol("x" * n)))
BINARIES = st.one_of(st.binary(max_size=20), st.integers(250, 260).map(bytes))
UUIDS = st.integers(0, (1 << 128) - 1).map(lambda n: uuid.UUID(int=n))

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    _signed(64),
    _signed(64).map(Long),
    _unsigned(8).map(UByte),
    _unsigned(16).map(UShort),
    _unsigned(32).map(UInt),
    _unsigned(64).map(ULong),
    _signed(8).map(Byte),
    _signed(16).map(Short),
    _signed(32).map(Int),
    _signed(64).map(Timestamp),
    _FLOATS64,
    _FLOATS32.map(Float),
    CHARS,
    TEXTS,
    SYMBOLS,
    BINARIES,
    UUIDS,
    st.binary(min_size=4, max_size=4).map(Decimal32),
    st.binary(min_size=8, max_size=8).map(Decimal64),
    st.binary(min_size=16, max_size=16).map(Decimal128),
)

ELEMENTS: dict[int, st.SearchStrategy] = {
    0x40: st.none(),
    0x41: st.just(True),
    0x42: st.just(False),
    0x43: st.just(UInt(0)),
    0x44: st.just(ULong(0)),
    0x45: st.builds(list),
    0x50: _unsigned(8).map(UByte),
    0x51: _signed(8).map(Byte),
    0x52: _unsigned(8).map(UInt),
    0x53: _unsigned(8).map(ULong),
    0x54: _signed(8).map(Int),
    0x55: _signed(8),
    0x56: st.booleans(),
    0x60: _unsigned(16).map(UShort),
    0x61: _signed(16).map(Short),
    0x70: _unsigned(32).map(UInt),
    0x71: _signed(32).map(Int),
    0x72: _FLOATS32.map(Float),
    0x73: CHARS,
    0x74: st.binary(min_size=4, max_size=4).map(Decimal32),
    0x80: _unsigned(64).map(ULong),
    0x81: _signed(64),
    0x82: _FLOATS64,
    0x83: _signed(64).map(Timestamp),
    0x84: st.binary(min_size=8, max_size=8).map(Decimal64),
    0x94: st.binary(min_size=16, max_size=16).map(Decimal128),
    0x98: UUIDS,
    0xA0: st.binary(max_size=255),
    0xA1: st.text(max_size=20),
    0xA3: WORDS,
    0xB0: BINARIES,
    0xB1: TEXTS,
    0xB3: SYMBOLS,
}

SCALAR_ARRAYS = st.sampled_from(sorted(ELEMENTS)).flatmap(
    lambda code: st.builds(Array, st.just(code), st.lists(ELEMENTS[code], max_size=5))
)


def _arrays(inner: st.SearchStrategy) -> st.SearchStrategy:
    """Arrays of compounds and of arrays, and under one descriptor or several."""
    compounds = st.one_of(
        st.builds(Array, st.just(0xD0), st.lists(st.lists(inner, max_size=3), max_size=3)),
        st.builds(Array, st.just(0xD1), st.lists(_maps(inner), max_size=3)),
        st.builds(Array, st.just(0xF0), st.lists(SCALAR_ARRAYS, max_size=3)),
    )
    descriptors = st.one_of(
        inner.filter(lambda value: value is not None),
        st.tuples(st.none()),
        st.tuples(inner, inner),
    )
    described = st.builds(
        lambda array, descriptor: Array(array.code, array.items, descriptor),
        SCALAR_ARRAYS,
        descriptors,
    )
    return st.one_of(compounds, described)


def _maps(inner: st.SearchStrategy) -> st.SearchStrategy:
    return st.lists(st.tuples(inner, inner), max_size=4).map(as_map)


VALUES = st.recursive(
    st.one_of(SCALARS, SCALAR_ARRAYS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=5),
        _maps(inner),
        st.builds(Described, inner, inner),
        _arrays(inner),
    ),
    max_leaves=12,
)
