"""Application properties as headers: both directions, and names that are not theirs."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partibus.amqp.codec.types import Timestamp
from partibus.domain.errors import ArgumentError
from partibus.rest.property_headers import (
    is_property,
    read_headers,
    read_value,
    write_headers,
    write_value,
)

VALUES = st.one_of(
    st.booleans(),
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=["Cs"])),
    st.integers(0, 253_402_300_799).map(lambda seconds: Timestamp(seconds * 1000)),
)


@settings(deadline=None)
@given(VALUES)
def test_there_and_back(value: object) -> None:
    text = write_value(value)
    assert text is not None
    assert text.isascii() and text.isprintable()
    again = read_value(text, "n")
    assert again == value
    assert type(again) is type(value)


@settings(deadline=None)
@given(st.binary(max_size=80))
def test_any_bytes_are_a_value_or_refused(raw: bytes) -> None:
    try:
        read_headers([(b"Name", raw)])
    except ArgumentError as error:
        assert "Name" in error.text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('"High"', "High"),
        ('"12345,ABC"', "12345,ABC"),
        ('"C:\\path"', "C:\\path"),
        ("High", "High"),
        ("True", True),
        ("-0", 0),
        ("9223372036854775808", 9223372036854775808.0),
        ("1e400", "1e400"),
        ("NaN", "NaN"),
        ("", ""),
        ('"Sun, 06 Nov 1994 08:49:37 GMT"', Timestamp(784_111_777_000)),
        ("Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 GMT"),
    ],
)
def test_values_as_programs_write_them(text: str, value: object) -> None:
    assert read_value(text, "n") == value
    assert type(read_value(text, "n")) is type(value)


def test_a_quote_that_does_not_close_is_refused() -> None:
    with pytest.raises(ArgumentError, match="'n' has no closing quote"):
        read_value('"half', "n")


@pytest.mark.parametrize(
    "name",
    ["Host", "AUTHORIZATION", "content-type", "x-ms-retrypolicy", "X-Forwarded-For", "sec-fetch"],
)
def test_what_http_says_is_no_property(name: str) -> None:
    assert not is_property(name)
    assert read_headers([(name.encode(), b"1")]) == {}
    assert write_headers({name: 1}) == []


def test_names_keep_their_case() -> None:
    assert read_headers([(b"Priority", b"1"), (b"priority", b"2")]) == {
        "Priority": 1,
        "priority": 2,
    }
    assert write_headers({"Priority": "High"}) == [(b"Priority", b'"High"')]


@pytest.mark.parametrize("name", ["", "a b", "a:b", "a\r\nb", "gr\u00fc\u00dfe", "x" * 129])
def test_a_name_that_is_no_header_is_left_out(name: str) -> None:
    assert write_headers({name: 1}) == []


@pytest.mark.parametrize("value", [None, b"bytes", float("nan"), [1]])
def test_a_value_without_a_form_is_left_out(value: object) -> None:
    assert write_headers({"n": value}) == []
