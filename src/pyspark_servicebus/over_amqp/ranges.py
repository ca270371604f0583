"""How a snapshot is divided into ranges of sequence numbers, with a few requests.

Owns what can be found out cheaply about an entity that reports nothing about itself: which
fragments have messages (the top 16 bits of a number are the fragment), and where their numbers end.
Each answer is compared with the request; a bus that answers differently is read in one walk.
"""

from typing import Final

from partibus.domain.sequence import NUMBERS_END, fragment_end, fragment_of
from pyspark_servicebus.over_amqp.browse import page, walk_all
from pyspark_servicebus.over_amqp.wire import Wire
from pyspark_servicebus.source.planning import Slice, split

FRAGMENTS_MAX: Final = 1024
LOOK_PAGES: Final = 20
"""How far the first fragment is looked for."""

Range = tuple[int, int]
"""Sequence numbers from the first up to, but not including, the second."""


def cut(wire: Wire, path: str, parts_min: int) -> list[Range] | None:
    """The ranges of a snapshot, at least this many if possible; None when only a walk is possible.

    Empty when there are no messages. A single range is useless: every bus documents the walk.
    """
    if parts_min == 1:
        return None if page(wire, path, 0, 1) else []
    shown, is_known = _oldest(wire, path)
    if not shown:
        return []
    firsts = _firsts(wire, path) if is_known else None
    if firsts is None:
        return None
    if min(shown) < NUMBERS_END:
        firsts = {0: min(shown), **firsts}
    if not {fragment_of(number) for number in shown} <= firsts.keys():
        return None
    if len(firsts) >= parts_min:
        return [(first, fragment_end(first)) for first in firsts.values()]
    slices = [Slice(index, first, end(wire, path, first), -1, 1) for index, first in firsts.items()]
    return [(part.first, part.last) for part in split(slices, parts_min)]


def _oldest(wire: Wire, path: str) -> tuple[set[int], bool]:
    """Numbers of the oldest messages, and whether no other can be lower than all of them.

    The very first message of the first fragment may be returned after those of all others, and it
    cannot be requested by its number.
    """
    shown: set[int] = set()
    pages = walk_all(wire, path)
    try:
        for _ in range(LOOK_PAGES):
            found = next(pages, None)
            shown.update(number for number, _ in found or ())
            if found is None or min(shown) < NUMBERS_END:
                return shown, True
    finally:
        pages.close()
    return shown, False


def _firsts(wire: Wire, path: str) -> dict[int, int] | None:
    """The first number of every fragment after the first one with messages."""
    firsts: dict[int, int] = {}
    at = NUMBERS_END
    while (number := _next(wire, path, at)) is not None:
        if number < at or len(firsts) == FRAGMENTS_MAX:
            return None
        firsts[fragment_of(number)] = number
        at = fragment_end(number)
    return firsts


def end(wire: Wire, path: str, first: int) -> int:
    """The number after the last message of the fragment of `first`."""
    limit = fragment_end(first)
    low, step = first + 1, 1
    while low + step < limit and (found := _next(wire, path, low + step)) is not None:
        if not low + step <= found < limit:
            break
        low, step = found + 1, step * 2
    high = min(low + step, limit)
    while low < high:
        middle = (low + high) // 2
        found = _next(wire, path, middle)
        if found is not None and middle <= found < limit:
            low = found + 1
        else:
            high = middle
    return low


def _next(wire: Wire, path: str, first: int) -> int | None:
    """The number of the first message from a number on."""
    found = page(wire, path, first, 1)
    return found[0][0] if found else None
