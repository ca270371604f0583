"""The outbox of a fragment: messages on their way to another entity, in the order they left.

Owns what waits for its courier: each parcel has an outbox number, from a counter of its own that
only grows, the purpose of its journey and the path it is bound to. Parcels are kept in columns like
any backlog (see `table`), with one extra word each. Knows nothing of durability or of destinations;
`departures` puts parcels in, `transfers` takes them out.
"""

import enum
from array import array
from collections.abc import Iterator
from typing import Final

from partibus.fragment.message import Held
from partibus.fragment.outbox.commands import Collect
from partibus.fragment.queue.table import MessageTable
from partibus.fragment.word_map import WordMap

ROUTE_BITS: Final = 16
"""Of a word: its route; the other 48 bits are the sequence number."""
ROUTES_MAX: Final = 1 << ROUTE_BITS
_ROUTE_MASK: Final = ROUTES_MAX - 1

TRANSFER_SEQUENCES: Final = 1 << 47
"""A message that only the outbox has ever held has this plus its outbox number for a sequence
number: no message of a subqueue has such a number."""


class Purpose(enum.IntEnum):
    """Why a message is sent on."""

    FORWARD = 0
    """Its entity forwards what it gets (FWD-1)."""
    DEAD_LETTER = 1
    """Its entity forwards its dead letters (FWD-5)."""
    TRANSFER = 2
    """It was sent to another entity through this one."""


class Parcel:
    """A message in the outbox; `held.sequence` is its number in the fragment."""

    __slots__ = ("held", "is_recovered", "number", "path", "purpose")

    def __init__(
        self, number: int, held: Held, purpose: Purpose, path: str, is_recovered: bool
    ) -> None:
        self.number = number
        self.held = held
        self.purpose = purpose
        self.path = path
        self.is_recovered = is_recovered
        """It was there when the process started: it may already have been handed over."""


class Outbox:
    """Parcels by outbox number."""

    __slots__ = (
        "_route_numbers",
        "collector",
        "is_direct",
        "next_number",
        "next_number_durable",
        "recovered_below",
        "routes",
        "settling",
        "table",
        "words",
    )

    def __init__(self) -> None:
        self.next_number = 1
        self.next_number_durable = 1
        """What `next_number` would be without departures that are not durable yet."""
        self.recovered_below = 1
        """Parcels below this were there when the process started: they may already have been handed
        over."""
        self.is_direct = False
        """New messages enter the outbox in the same entry; see `departures`."""
        self.table = MessageTable()
        """The messages, under their outbox numbers."""
        self.words = WordMap(array("Q", [0]))
        self.routes: list[tuple[Purpose, str]] = []
        self._route_numbers: dict[tuple[Purpose, str], int] = {}
        self.settling: set[int] = set()
        """Parcels whose departure is decided but not durable yet."""
        self.collector: Collect | None = None
        """The courier's pending request, while there are no parcels."""

    def __len__(self) -> int:
        return len(self.table)

    def enter(self, number: int, held: Held, purpose: Purpose, path: str) -> None:
        """Add a message under a number that is higher than all before it."""
        self.words.put(number, held.sequence << ROUTE_BITS | self._route(purpose, path))
        self.table.insert(held.copy_as(number))

    def _route(self, purpose: Purpose, path: str) -> int:
        route = (purpose, path)
        place = self._route_numbers.get(route)
        if place is None:
            if not len(self.table):
                self.routes.clear()
                self._route_numbers.clear()
            place = len(self.routes)
            # The caller has checked `has_room_for`.
            assert place < ROUTES_MAX
            self.routes.append(route)
            self._route_numbers[route] = place
        return place

    def has_room_for(self, purpose: Purpose, path: str) -> bool:
        """Whether there is room for one more destination."""
        return (purpose, path) in self._route_numbers or len(self.routes) < ROUTES_MAX // 2

    def restore_routes(self, routes: list[tuple[Purpose, str]]) -> None:
        """The routes of a snapshot."""
        self.routes = routes
        self._route_numbers = {route: place for place, route in enumerate(routes)}

    def take(self, number: int) -> Parcel | None:
        """Take a parcel out; None when it is not here."""
        held = self.table.take(number)
        if held is None:
            return None
        parcel = self._parcel(held)
        self.words.drop(number)
        return parcel

    def copies(self, from_number: int) -> Iterator[Parcel]:
        """Copies of the parcels from a number on, in order; nothing is taken out."""
        for held in self.table.copies(from_number):
            yield self._parcel(held)

    def copy_of(self, number: int) -> Parcel | None:
        """A copy of one parcel; None when it is not here."""
        held = self.table.copy_of(number)
        return None if held is None else self._parcel(held)

    def _parcel(self, held: Held) -> Parcel:
        number = held.sequence
        word = self.words.get(number)
        purpose, path = self.routes[word & _ROUTE_MASK]
        held.sequence = word >> ROUTE_BITS
        return Parcel(number, held, purpose, path, number < self.recovered_below)
