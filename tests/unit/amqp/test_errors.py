"""Errors as values, and as they are read."""

import pytest

from partibus.amqp.codec.decode import DecodeError, decode_value
from partibus.amqp.codec.types import Described, Pairs, Symbol, ULong
from partibus.amqp.errors import AmqpError, error_from_value, string_keyed


def test_errors_are_values():
    one = AmqpError("a:b", "text", {"k": 1})
    assert one == AmqpError("a:b", "text", {"k": 1})
    assert hash(one) == hash(AmqpError("a:b", "text", {"k": 1}))
    assert one != AmqpError("a:b", "text")
    assert one != "a:b"
    assert repr(one) == "AmqpError('a:b', 'text', {'k': 1})"


def test_an_error_can_be_read_back():
    error = AmqpError("a:b", "text", {"k": "v"})
    raw = error.encode()
    assert error_from_value(decode_value(raw, 0, len(raw))[0]) == error


def test_the_keys_of_the_details_are_symbols():
    raw = AmqpError("a:b", "", {"k": 1}).encode()
    (key,) = decode_value(raw, 0, len(raw))[0].value[2]
    assert isinstance(key, Symbol)


def test_short_errors_of_peers_are_read():
    assert error_from_value(None) is None
    short = Described(ULong(0x1D), [Symbol("a:b")])
    assert error_from_value(short) == AmqpError("a:b", "", None)
    odd = Described(ULong(0x1D), [Symbol("a:b"), 5, {}])
    assert error_from_value(odd) == AmqpError("a:b", "", {})


@pytest.mark.parametrize(
    "value", ["text", Described(ULong(0x1D), "x"), Described(ULong(0x1D), [5])]
)
def test_what_is_no_error_is_a_decode_error(value):
    with pytest.raises(DecodeError):
        error_from_value(value)


def test_maps_are_keyed_by_plain_text():
    assert string_keyed(None) == {}
    assert string_keyed({Symbol("a"): 1, "b": 2, 3: 4}) == {"a": 1, "b": 2}
    assert string_keyed(Pairs([("a", 1), (1, 2), (True, 3)])) == {"a": 1}
    with pytest.raises(DecodeError):
        string_keyed([])
