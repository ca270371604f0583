"""Decimals of application properties, in the layout of the standard and of the vendor's library."""

import pytest

from partibus.amqp.codec.sections import (
    decode_application_properties,
    encode_application_properties,
    parse_sections,
)
from partibus.amqp.codec.types import Decimal128
from partibus.message.envelope import Stored, to_stored

DATA = b"\x00\x53\x75\xa0\x05hello"


def given_back(value: bytes, turns_decimals: bool = True) -> bytes:
    """The bytes of a decimal property after it was stored between two others."""
    properties = {"a": "text", "decimal": Decimal128(value), "z": 1}
    payload = encode_application_properties(properties) + DATA
    bare = Stored(to_stored(payload, turns_decimals=turns_decimals).body).bare
    got = decode_application_properties(bare, parse_sections(bare))
    assert (list(got), got["a"], got["z"]) == (["a", "decimal", "z"], "text", 1)
    assert bare.endswith(DATA)
    decimal = got["decimal"]
    assert isinstance(decimal, Decimal128)
    return bytes(decimal)


def standard(number: int, exponent: int, is_negative: bool = False) -> bytes:
    """A decimal as the standard has it."""
    return (is_negative << 127 | (exponent + 6176) << 113 | number).to_bytes(16, "big")


def vendor(number: int, exponent: int, is_negative: bool = False) -> bytes:
    """A decimal as the vendor's .NET library has it."""
    biased = exponent + 6176
    head = bytes((is_negative << 7 | biased >> 9, (biased & 0x7F) << 1))
    return head + number.to_bytes(14, "big")


@pytest.mark.rule("MSG-5")
@pytest.mark.parametrize("number", [0, 12345, 2**96 - 1])
@pytest.mark.parametrize("exponent", [0, -1, -4, -28])
@pytest.mark.parametrize("is_negative", [False, True])
def test_a_decimal_comes_back_as_net_has_it(number: int, exponent: int, is_negative: bool) -> None:
    sent = standard(number, exponent, is_negative)
    turned = vendor(number, exponent, is_negative)
    assert given_back(sent) == turned
    assert given_back(turned) == turned, "what a .NET client sent stays"
    assert given_back(sent, turns_decimals=False) == sent


@pytest.mark.rule("MSG-5")
@pytest.mark.parametrize(
    "value",
    [
        standard(1, 1),
        standard(1, -29),
        standard(2**96, 0),
        bytes.fromhex("78" + "00" * 15),  # infinite
        bytes.fromhex("7c" + "00" * 15),  # not a number
        bytes(range(16)),
    ],
    ids=bytes.hex,
)
def test_what_net_has_no_decimal_for_stays_as_it_was_sent(value: bytes) -> None:
    assert given_back(value) == value


def test_other_values_that_look_like_it_stay() -> None:
    looks = b"\x94" + standard(1, 0)
    payload = encode_application_properties({"b": looks, "d": Decimal128(bytes(16))}) + DATA
    bare = Stored(to_stored(payload, turns_decimals=True).body).bare
    got = decode_application_properties(bare, parse_sections(bare))
    assert got == {"b": looks, "d": Decimal128(bytes(16))}
