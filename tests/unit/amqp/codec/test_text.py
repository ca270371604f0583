"""Text is text, whichever type a client wrote it in."""

import uuid

import pytest

from partibus.amqp.codec.text import is_text, text_of
from partibus.amqp.codec.types import Symbol, ULong


@pytest.mark.parametrize("value", ["grüße", Symbol("grüße"), "grüße".encode()])
def test_string_symbol_and_binary_are_one_text(value: object) -> None:
    text = text_of(value)
    assert (text, type(text)) == ("grüße", str)
    assert is_text(value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        ("", ""),
        (b"", ""),
        (b"\xff\x01", "ff01"),
        (ULong(7), "7"),
        (uuid.UUID(int=7), "00000000-0000-0000-0000-000000000007"),
    ],
)
def test_what_is_no_text_has_a_text(value: object, expected: str | None) -> None:
    assert text_of(value) == expected
