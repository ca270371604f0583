"""The time to live of a message: as sent, as stored, and as its receiver sees it.

Owns the consistency of the header's time to live with the creation time and the absolute expiry
time of the properties section: their difference is the time to live, to the millisecond (TTL-1). A
header has 32 bits, 49 days; a longer one is given only by the two times. It must never decide when
a message expires: the fragment does. Called by `envelope` and by other code that parses stored
messages.
"""

from typing import Final

from partibus.amqp.codec.properties import life_of
from partibus.amqp.codec.sections import MessageProperties, decode_properties, parse_sections

FOREVER: Final = -1
WORD_FOREVER: Final = 0xFFFF_FFFF
WORD_LONG: Final = 0xFFFF_FFFE
"""In a stored message: this long, or as long as its two times say."""
LIFE_MS_MAX: Final = 7_900 * 31_557_600_000
"""Thousands of years in milliseconds: anything longer means forever. A scheduled message's row has
room for 2^48 - 1."""
_TIME_MS_MAX: Final = (1 << 63) - 1


def asked_ms(header_ttl_ms: int, properties: MessageProperties) -> int:
    """The time to live that a sender sets: in the header, or, if that is too small, by its
    times."""
    header_ttl_ms = FOREVER if header_ttl_ms == WORD_FOREVER else header_ttl_ms
    life_ms = life_of(header_ttl_ms, properties)
    return life_ms if life_ms <= LIFE_MS_MAX else FOREVER


def word_of(life_ms: int) -> int:
    """A time to live in the 32 bits of a stored message's prefix."""
    return WORD_FOREVER if life_ms < 0 else min(life_ms, WORD_LONG)


def stored_ms(word: int, bare: bytes) -> int:
    """The time to live of a stored message, by its prefix and its sections."""
    if word == WORD_FOREVER:
        return FOREVER
    if word < WORD_LONG:
        return word
    life_ms = asked_ms(FOREVER, decode_properties(bare, parse_sections(bare)))
    return max(life_ms, WORD_LONG)


def keep(properties: MessageProperties, life_ms: int, created_ms: int) -> None:
    """Set a long time to live in stored properties; a shorter one is in the prefix."""
    properties.absolute_expiry_time_ms = None
    if life_ms >= WORD_LONG and (created_ms or properties.creation_time_ms is not None):
        set_times(properties, life_ms, created_ms)


def set_times(properties: MessageProperties, life_ms: int, created_ms: int) -> None:
    """Set both times for a time to live; the creation time defaults to `created_ms`."""
    if properties.creation_time_ms is None:
        properties.creation_time_ms = created_ms
    properties.absolute_expiry_time_ms = min(properties.creation_time_ms + life_ms, _TIME_MS_MAX)
