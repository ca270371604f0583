"""Header, creation time and expiry time agree on how long a message lives, to the millisecond."""

import pytest

from partibus.amqp.codec.properties import MessageProperties
from partibus.amqp.codec.sections import (
    decode_properties,
    encode_header,
    encode_properties,
    parse_sections,
)
from partibus.domain.moments import MOMENT_MS_MAX, MOMENT_MS_MIN
from partibus.fragment.message import Held, Overlay
from partibus.message.envelope import Stored, to_delivery, to_peeked, to_stored
from partibus.message.forwarded import Hop, to_forwarded
from partibus.message.lifetime import LIFE_MS_MAX, WORD_FOREVER, WORD_LONG

DATA = b"\x00\x53\x75\xa0\x05hello"
DAY_MS = 86_400_000
CREATED_MS = 1_700_000_000_123
ENQUEUED_MS = CREATED_MS + 77
"""The message was on its way for so long."""


def message(
    ttl_ms: int, created_ms: int | None = CREATED_MS, expires_ms: int | None = None
) -> bytes:
    properties = MessageProperties(
        message_id="m", creation_time_ms=created_ms, absolute_expiry_time_ms=expires_ms
    )
    return encode_header(True, 4, ttl_ms, 0) + encode_properties(properties) + DATA


def held(life_ms: int, overlay: Overlay | None = None) -> Held:
    return Held(5, 0, 0, ENQUEUED_MS, ENQUEUED_MS + life_ms if life_ms >= 0 else 0, 0, overlay)


def told(payload: bytes) -> tuple[int, int | None, int | None]:
    """The header's time to live, and the two times."""
    sections = parse_sections(payload)
    properties = decode_properties(payload, sections)
    return sections.ttl_ms, properties.creation_time_ms, properties.absolute_expiry_time_ms


@pytest.mark.rule("TTL-1", "MSG-2")
@pytest.mark.parametrize("is_peeked", [False, True])
def test_what_was_sent_comes_back(is_peeked: bool) -> None:
    new = to_stored(message(60_000, CREATED_MS, CREATED_MS + 60_000))
    assert new.ttl_ms == 60_000
    of = held(60_000)
    out = to_peeked(new.body, of, 9) if is_peeked else to_delivery(new.body, of, 9, b"")
    assert told(out) == (60_000, CREATED_MS, CREATED_MS + 60_000)


@pytest.mark.rule("TTL-1")
def test_the_header_counts_where_the_times_say_otherwise() -> None:
    new = to_stored(message(60_000, CREATED_MS, CREATED_MS + 99))
    assert new.ttl_ms == 60_000
    out = to_delivery(new.body, held(60_000), 9, b"")
    assert told(out) == (60_000, CREATED_MS, CREATED_MS + 60_000)


@pytest.mark.rule("TTL-2")
def test_a_default_fills_in_and_a_ceiling_cuts() -> None:
    without = to_stored(message(-1, None))
    assert without.ttl_ms == -1
    out = to_delivery(without.body, held(101 * DAY_MS), 9, b"")
    assert told(out) == (WORD_FOREVER, ENQUEUED_MS, ENQUEUED_MS + 101 * DAY_MS)
    longer = to_stored(message(60_000, CREATED_MS, CREATED_MS + 60_000))
    out = to_delivery(longer.body, held(1_000), 9, b"")
    assert told(out) == (1_000, CREATED_MS, CREATED_MS + 1_000)


def test_a_message_without_a_life_says_nothing_of_one() -> None:
    out = to_delivery(to_stored(message(-1)).body, held(-1), 9, b"")
    assert told(out) == (-1, CREATED_MS, None)


@pytest.mark.rule("TTL-1")
@pytest.mark.parametrize("life_ms", [WORD_LONG, WORD_FOREVER, WORD_FOREVER + 1, 100 * DAY_MS])
@pytest.mark.parametrize("header_ms", [-1, WORD_FOREVER])
def test_a_long_life_is_given_by_the_times(life_ms: int, header_ms: int) -> None:
    new = to_stored(message(header_ms, CREATED_MS, CREATED_MS + life_ms))
    assert new.ttl_ms == Stored(new.body).ttl_ms == life_ms
    shown = (min(life_ms, WORD_FOREVER), CREATED_MS, CREATED_MS + life_ms)
    assert told(to_delivery(new.body, held(life_ms), 9, b"")) == shown
    # A scheduled message has no time of expiry yet.
    assert told(to_peeked(new.body, held(-1), 9)) == shown


def test_a_long_life_goes_on_to_another_entity() -> None:
    new = to_stored(message(WORD_FOREVER, CREATED_MS, CREATED_MS + 100 * DAY_MS))
    gone = to_forwarded(new.body, Hop(7, Overlay(b"", "why")), False)
    assert gone.ttl_ms == Stored(gone.body).ttl_ms == 100 * DAY_MS


@pytest.mark.parametrize(
    ("created_ms", "expires_ms"),
    [
        (None, CREATED_MS),
        (CREATED_MS, None),
        (CREATED_MS, CREATED_MS),
        (CREATED_MS, CREATED_MS - 1),
        (MOMENT_MS_MIN, MOMENT_MS_MAX),
        (CREATED_MS, CREATED_MS + LIFE_MS_MAX + 1),
    ],
)
@pytest.mark.parametrize("header_ms", [-1, WORD_FOREVER])
def test_times_that_say_no_life_are_ignored(
    created_ms: int | None, expires_ms: int | None, header_ms: int
) -> None:
    new = to_stored(message(header_ms, created_ms, expires_ms))
    assert new.ttl_ms == Stored(new.body).ttl_ms == -1
    assert told(to_delivery(new.body, held(-1), 9, b"")) == (-1, created_ms, None)


def test_the_longest_life_of_earlier_releases_is_as_long_as_it_was() -> None:
    new = to_stored(message(WORD_LONG, None))
    assert Stored(new.body).ttl_ms == WORD_LONG
    out = to_delivery(new.body, held(WORD_LONG), 9, b"")
    assert told(out) == (WORD_LONG, ENQUEUED_MS, ENQUEUED_MS + WORD_LONG)


def test_a_creation_time_at_the_end_of_time_can_be_delivered() -> None:
    end_ms = (1 << 63) - 1
    new = to_stored(message(60_000, end_ms))
    assert told(to_delivery(new.body, held(60_000), 9, b"")) == (60_000, end_ms, end_ms)
