"""Which stored messages are known to be damaged.

Owns their positions, so that health counts each of them once however often it is read. It must
never read the store; the broker reports every failed read to it.
"""

from typing import Final

from partibus.domain.errors import BusError, StoreCorrupt
from partibus.fragment.message import Held

PLACES_MAX: Final = 10_000
"""Beyond this the count is of no use; only a number is kept of each."""


class Damage:
    """The positions in one store where messages failed their checksum."""

    __slots__ = ("_positions",)

    def __init__(self) -> None:
        self._positions: set[int] = set()

    @property
    def count(self) -> int:
        """How many damaged messages were found since the start."""
        return len(self._positions)

    def note(self, messages: list[Held], error: BusError) -> bool:
        """A read failed; returns whether by damage. Among several messages the damaged one is
        unknown."""
        is_damage = isinstance(error, StoreCorrupt)
        if is_damage and len(messages) == 1 and len(self._positions) < PLACES_MAX:
            self._positions.add(messages[0].position)
        return is_damage
