"""Peeking at messages over the management node.

Owns the walk by sequence number: a range of them, a set of them, or all. A peek returns a page of
up to 250 messages from a number on, in the order of numbers, and continues over the fragments of a
partitioned entity. From the very first number on, a bus may instead return the oldest of all
fragments first, so that number is handled separately.
"""

from collections.abc import Generator, Iterator, Sequence
from typing import Final

from partibus.client.message_columns import MessageColumns
from partibus.domain.sequence import NUMBERS_END
from pyspark_servicebus.over_amqp.wire import Wire

PAGE_MESSAGES: Final = 250
"""What a bus returns for one peek."""
ORDERED_FROM: Final = 2
"""From here on a peek goes by numbers; below, it may begin with the oldest of all fragments."""
GAP_MAX: Final = 16
"""A gap between two wanted numbers that is cheaper to read than to skip."""

Page = list[tuple[int, bytes]]
"""Messages with their sequence numbers."""


def page(wire: Wire, path: str, first: int, count: int = PAGE_MESSAGES) -> Page:
    """A page of messages from a number on, as the bus returns them."""

    async def peek(wire: Wire) -> list[bytes]:
        return await (await wire.management(path)).peek_encoded(first, count)

    return numbered(wire.ask(peek))


def numbered(messages: Sequence[bytes]) -> Page:
    """Messages with their sequence numbers."""
    columns = MessageColumns(frozenset(("sequence_number",)))
    for message in messages:
        columns.add(message)
    numbers = columns.lists["sequence_number"]
    return [
        (number if isinstance(number, int) else 0, message)
        for number, message in zip(numbers, messages, strict=True)
    ]


def walk_range(wire: Wire, path: str, first: int, last: int) -> Iterator[Page]:
    """Messages with numbers from `first` on and before `last`, in order."""
    at = first
    if at < ORDERED_FROM:
        if begin := [item for item in walk_first(wire, path) if first <= item[0] < last]:
            yield begin
        at = ORDERED_FROM
    while at < last:
        found = page(wire, path, at, min(PAGE_MESSAGES, last - at))
        wanted = [item for item in found if at <= item[0] < last]
        if wanted:
            yield wanted
        if not wanted or found[-1][0] >= last:
            return
        at = wanted[-1][0] + 1


def walk_first(wire: Wire, path: str) -> Page:
    """The messages before `ORDERED_FROM`, if there are any.

    They are the first of their fragment, so the walk ends at the next one of it.
    """
    found: Page = []
    for shown in walk_all(wire, path):
        found += [item for item in shown if item[0] < ORDERED_FROM]
        if any(ORDERED_FROM <= number < NUMBERS_END for number, _ in shown):
            break
    return found


def walk_all(wire: Wire, path: str) -> Generator[Page, None, None]:
    """Every message once, whatever the order in which the bus returns them.

    Over a separate connection: a bus may keep the position of the walk per connection.
    """
    own = Wire(wire.access)
    seen: set[int] = set()
    at, passed = 0, 0
    try:
        while True:
            incarnation = own.incarnation
            found = page(own, path, at)
            new = [item for item in found if item[0] not in seen]
            seen.update(number for number, _ in new)
            passed = 0 if new else passed + len(found)
            if new:
                yield new
            if own.incarnation != incarnation and at:
                at = 0  # the position was lost with the connection
                continue
            # Stop if the bus goes in circles.
            if not found or passed > len(seen) + PAGE_MESSAGES:
                return
            at = found[-1][0] + 1
    finally:
        own.close()


def walk_set(wire: Wire, path: str, numbers: Sequence[int]) -> Iterator[Page]:
    """The existing messages with these numbers, in order."""
    for first, last, wanted in runs(numbers):
        for found in walk_range(wire, path, first, last):
            chosen = [item for item in found if item[0] in wanted]
            if chosen:
                yield chosen


def runs(numbers: Sequence[int]) -> list[tuple[int, int, frozenset[int]]]:
    """Numbers merged into ranges where they are close together; ends are excluded."""
    out: list[tuple[int, int, frozenset[int]]] = []
    run: list[int] = []
    for number in sorted(set(numbers)):
        # A range never leaves its fragment: nothing after its end is read.
        if run and number - run[-1] > GAP_MAX:
            out.append((run[0], run[-1] + 1, frozenset(run)))
            run = []
        run.append(number)
    if run:
        out.append((run[0], run[-1] + 1, frozenset(run)))
    return out
