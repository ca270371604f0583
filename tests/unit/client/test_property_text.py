"""Application properties as text and back: every AMQP type, every value."""

import math
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partibus.amqp.codec import types as amqp
from partibus.amqp.codec.encode import encode_value
from partibus.client.property_text import from_text, to_text

FLOATS = st.floats(width=32, allow_nan=False).map(amqp.Float)
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.text(),
    st.binary(),
    st.uuids(),
    st.floats(allow_nan=False),
    FLOATS,
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.integers(0, 255).map(amqp.UByte),
    st.integers(0, (1 << 16) - 1).map(amqp.UShort),
    st.integers(0, (1 << 32) - 1).map(amqp.UInt),
    st.integers(0, (1 << 64) - 1).map(amqp.ULong),
    st.integers(-128, 127).map(amqp.Byte),
    st.integers(-(1 << 15), (1 << 15) - 1).map(amqp.Short),
    st.integers(-(1 << 31), (1 << 31) - 1).map(amqp.Int),
    st.integers(-(1 << 63), (1 << 63) - 1).map(amqp.Timestamp),
    st.characters(codec="utf-8").map(amqp.Char),
    st.text(st.characters(codec="ascii", exclude_characters="\x00")).map(amqp.Symbol),
    st.lists(st.integers(0, 9)),
)


@settings(deadline=None, max_examples=500)
@given(VALUES)
def test_a_value_comes_back_with_its_type(value: object) -> None:
    text, name = to_text(value)
    assert text is None or isinstance(text, str)
    again = from_text(text, name)
    assert encode_value(again) == encode_value(value)
    assert type(again) is type(value)
    assert again == value


def test_text_without_a_type_is_text() -> None:
    assert from_text("12", None) == "12"


def test_what_is_no_number_stays_so() -> None:
    for value in (math.nan, amqp.Float(math.nan)):
        again = from_text(*to_text(value))
        assert type(again) is type(value)
        assert math.isnan(again)


def test_numbers_keep_all_their_digits() -> None:
    for number in (0.1, 1e300, -0.0, float("inf")):
        again = from_text(*to_text(number))
        assert struct.pack(">d", again) == struct.pack(">d", number)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("yes", "boolean"),
        ("1.5", "int"),
        ("x", "uuid"),
        ("later", "timestamp"),
        ("?", "binary"),
        ("1", "complex"),
    ],
)
def test_text_that_does_not_fit_is_refused(text: str, name: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        from_text(text, name)
