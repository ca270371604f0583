"""A stored message after a hop: what is added, what is kept, and what its receiver sees."""

import pytest

from partibus.amqp.codec.sections import (
    annotation_items,
    decode_application_properties,
    decode_properties,
    parse_sections,
)
from partibus.fragment.message import Held, Overlay
from partibus.message.envelope import (
    Stored,
    header_bytes,
    hops_of,
    to_delivery,
    to_peeked,
    to_stored,
)
from partibus.message.forwarded import Hop, to_forwarded
from partibus.message.overlay import overlay_pairs
from support.gateway.messages import in_session, keyed, plain


def annotations_of(body: bytes, sequence: int = 9, overlay: Overlay | None = None) -> dict:  # type: ignore[type-arg]
    held = Held(sequence, 0, len(body), 1000, 0, 0, overlay)
    return dict(annotation_items(parse_sections(to_delivery(body, held, sequence, b"x" * 16))))


@pytest.mark.rule("FWD-9")
def test_the_first_number_is_kept_over_all_hops() -> None:
    body = to_stored(plain(1)).body
    assert hops_of(body) == 0
    assert "x-opt-enqueue-sequence-number" not in annotations_of(body)
    once = to_forwarded(body, Hop(5 << 48 | 7), False).body
    twice = to_forwarded(once, Hop(8), False).body
    assert (hops_of(once), hops_of(twice)) == (1, 2)
    for forwarded in (once, twice):
        shown = annotations_of(forwarded)
        assert shown["x-opt-enqueue-sequence-number"] == 5 << 48 | 7
        assert shown["x-opt-sequence-number"] == 9
    held = Held(9, 0, len(twice), 1000, 0, 0, None)
    for payload in (to_delivery(twice, held, 9, b""), to_peeked(twice, held, 9)):
        peeked = dict(annotation_items(parse_sections(payload)))
        assert peeked["x-opt-enqueue-sequence-number"] == 5 << 48 | 7


def test_a_message_that_had_no_number_before_has_only_its_own() -> None:
    forwarded = to_forwarded(to_stored(plain(1)).body, Hop(0), False).body
    shown = annotations_of(forwarded)
    assert shown["x-opt-sequence-number"] == 9
    assert "x-opt-enqueue-sequence-number" not in shown


def test_the_bare_message_goes_through_as_it_came() -> None:
    body = to_stored(keyed(1, "key")).body
    message = to_forwarded(body, Hop(1), False)
    assert Stored(message.body).bare == Stored(body).bare
    assert Stored(message.body).annotations == Stored(body).annotations
    assert header_bytes(message.body, Held(1, 0, 1, 0, 0, 0, None)) == header_bytes(
        body, Held(1, 0, 1, 0, 0, 0, None)
    )


@pytest.mark.rule("SEED-56", "DUP-7")
def test_keys_are_read_from_the_stored_message() -> None:
    message = to_forwarded(to_stored(keyed(1, "key")).body, Hop(1), True)
    assert (message.partition_key, message.session_id, message.message_id) == ("key", None, "m-1")
    message = to_forwarded(to_stored(in_session(1, "s")).body, Hop(1), False)
    assert (message.partition_key, message.session_id, message.message_id) == (None, "s", None)


@pytest.mark.rule("DLQ-8")
def test_what_was_laid_over_becomes_part_of_it_and_the_last_grave_is_named() -> None:
    overlay = Overlay(overlay_pairs({"color": "red"}), "why", "text")
    once = to_forwarded(to_stored(plain(1)).body, Hop(1, overlay, "first"), False).body
    twice = to_forwarded(once, Hop(2, Overlay(b"", "again"), "second"), False).body
    plainly = to_forwarded(twice, Hop(3), False).body
    for body, source, reason in ((once, "first", "why"), (plainly, "second", "again")):
        assert annotations_of(body)["x-opt-deadletter-source"] == source
        bare = Stored(body).bare
        assert decode_application_properties(bare, parse_sections(bare)) == {
            "color": "red",
            "DeadLetterReason": reason,
            "DeadLetterErrorDescription": "text",
        }
        assert decode_properties(bare, parse_sections(bare)).message_id == "m-1"


@pytest.mark.rule("FWD-12")
def test_the_senders_time_to_live_is_copied() -> None:
    stored = Stored(to_stored(plain(1)).body)
    assert to_forwarded(stored.encode(), Hop(1), False).ttl_ms == -1
    stored.ttl_ms = 2000
    message = to_forwarded(stored.encode(), Hop(1), False)
    assert (message.ttl_ms, Stored(message.body).ttl_ms) == (2000, 2000)
