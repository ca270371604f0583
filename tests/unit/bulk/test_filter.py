"""Which messages of a read are wanted."""

from typing import Any

import pytest

from partibus.bulk.filter import FILTER_CHARS_MAX, MessageFilter, compile_filter
from partibus.bulk.requests import Choice
from partibus.client.message import OutgoingMessage
from partibus.domain.errors import ArgumentError
from partibus.fragment.message import Held, Overlay
from partibus.message.envelope import to_stored
from partibus.message.overlay import overlay_pairs
from partibus.rules.errors import FilterError

FRAGMENT = 2


def stored(**given: Any) -> bytes:
    return to_stored(OutgoingMessage(body=b"x", **given).encode()).body


def held(number: int, overlay: Overlay | None = None, deliveries: int = 0) -> Held:
    return Held(number, 0, 0, 1000 + number, 0, deliveries, overlay)


def kept(choice: Choice, *messages: tuple[Held, bytes]) -> list[int]:
    chosen = MessageFilter(choice, FRAGMENT)
    found, bodies = chosen.sift([each for each, _ in messages], [body for _, body in messages])
    assert len(found) == len(bodies)
    return [each.sequence for each in found]


RED = stored(properties={"colour": "red", "n": 5}, message_id="a", session_id="s")
BLUE = stored(properties={"colour": "blue"}, message_id="b", session_id="t")
BOTH = [(held(1), RED), (held(2), BLUE)]


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (Choice(), [1, 2]),
        (Choice(filter="colour = 'red'"), [1]),
        (Choice(filter="n > 3"), [1]),
        (Choice(filter="n > 'x'"), []),
        (Choice(filter="1 = 1"), [1, 2]),
        (Choice(session_ids=["t", "u"]), [2]),
        (Choice(session_ids=[]), []),
        (Choice(message_ids=["a"]), [1]),
        (Choice(message_ids=["a"], session_ids=["t"]), []),
        (Choice(enqueued_from_ms=1002), [2]),
        (Choice(enqueued_to_ms=1002), [1]),
        (Choice(filter=f"sys.SequenceNumber = {FRAGMENT << 48 | 2}"), [2]),
    ],
)
def test_what_passes(choice: Choice, expected: list[int]) -> None:
    assert kept(choice, *BOTH) == expected


def test_what_was_changed_since_is_seen() -> None:
    overlay = Overlay(overlay_pairs({"colour": "green"}), "sour", None)
    changed = held(3, overlay, deliveries=4)
    assert kept(Choice(filter="colour = 'green'"), (changed, RED)) == [3]
    assert kept(Choice(filter="colour = 'red'"), (changed, RED)) == []
    assert kept(Choice(filter="DeadLetterReason = 'sour'"), (changed, RED)) == [3]
    assert kept(Choice(filter="sys.DeliveryCount = 4"), (changed, RED)) == [3]


def test_what_is_no_filter() -> None:
    with pytest.raises(FilterError, match="At character"):
        MessageFilter(Choice(filter="colour = ="), FRAGMENT)
    with pytest.raises(ArgumentError, match="characters"):
        compile_filter("a" * (FILTER_CHARS_MAX + 1))
