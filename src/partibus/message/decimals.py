"""Decimals in application properties: from the standard's layout to the vendor's.

Owns where the exponent of a decimal128 stands. The standard [1.6.15] has its 14 bits next to the
sign. The vendor's library has the upper bits two places lower, and clients that follow it read only
that: the Python client writes the one and reads the other. Changes nothing but numbers that a .NET
decimal can hold. Called by the envelope for a new message with rare types, in every profile but
`selfhost`.
"""

from typing import Final

from partibus.amqp.codec.decode import skip_value
from partibus.amqp.codec.section_walk import open_compound, read_descriptor
from partibus.amqp.codec.sections import MessageSections

_DECIMAL128: Final = 0x94
_SIGN: Final = 0x80
_STANDARD: Final = 0x30
"""The first byte without its sign: exponents of -28 to 0 are 6148 to 6176; 6148 >> 7 is 0x30."""
_VENDOR: Final = 0x0C  # 6148 >> 9
_SECOND_BYTES: Final = range(4 << 1, (32 << 1) + 1, 2)
"""The lower seven bits of such an exponent, and no bit of the number."""


def with_vendor_decimals(payload: bytes, sections: MessageSections) -> bytes:
    """The payload of these sections with its decimals in the vendor's layout, all in place."""
    found = [at for at in _values(payload, sections) if _is_standard(payload, at)]
    if not found:
        return payload
    changed = bytearray(payload)
    for at in found:
        changed[at + 1] = payload[at + 1] & _SIGN | _VENDOR
    return bytes(changed)


def _values(payload: bytes, sections: MessageSections) -> list[int]:
    """The offsets of the values of all application properties."""
    if sections.application_offset < 0:
        return []
    end = sections.application_end
    _, value = read_descriptor(payload, sections.application_offset, end)
    count, at, stop = open_compound(payload, value, 0xC1)
    values = []
    for _ in range(0, count, 2):
        at = skip_value(payload, at, stop)
        values.append(at)
        at = skip_value(payload, at, stop)
    return values


def _is_standard(payload: bytes, at: int) -> bool:
    """Whether a decimal of the standard's layout is there, of at most 96 bits and 28 places."""
    return (
        payload[at] == _DECIMAL128
        and payload[at + 1] & ~_SIGN == _STANDARD
        and payload[at + 2] in _SECOND_BYTES
        and payload[at + 3 : at + 5] == b"\x00\x00"
    )
