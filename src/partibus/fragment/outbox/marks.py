"""What a fragment has taken from the outboxes of others: the highest number of each.

Owns the marks by which a repeated delivery is recognised. An origin hands its parcels to one
fragment in the order of their numbers, one batch at a time, so everything up to the mark was taken.
A mark becomes durable in the same entry as the messages it stands for. An origin may have numbers
above it fenced: those are not here, and are never taken. Plain data; `fencing` decides with it.
"""

import struct
from dataclasses import dataclass
from typing import Final

from partibus.domain.errors import StoreCorrupt

_MARK: Final = struct.Struct("<QQQ")


@dataclass(eq=False)
class Origin:
    """Which outbox handed-over messages come from."""

    fragment_id: int
    numbers: list[int]
    """The outbox number of each message, in order; never empty."""


@dataclass(eq=False)
class Mark:
    """What is known of one origin."""

    taken: int = 0
    """Everything up to this number was taken."""
    fenced: int = 0
    """Nothing above `taken` and up to this number will be taken; void when below `taken`."""


class Marks:
    """Marks by origin fragment."""

    __slots__ = ("_durable", "_pending")

    def __init__(self) -> None:
        self._durable: dict[int, Mark] = {}
        self._pending: dict[int, Mark] = {}
        """Marks whose records are not durable yet."""

    def __len__(self) -> int:
        return len(self._durable)

    def of(self, origin_id: int) -> Mark:
        """The mark, including one that is not durable yet."""
        mark = self._pending.get(origin_id)
        if mark is None:
            mark = self._durable.get(origin_id)
        return mark if mark is not None else Mark()

    def prepare(self, origin_id: int, mark: Mark) -> None:
        """A mark is being made durable."""
        self._pending[origin_id] = mark

    def set(self, origin_id: int, mark: Mark) -> None:
        """A mark is durable."""
        self._durable[origin_id] = mark
        if self._pending.get(origin_id) is mark:
            del self._pending[origin_id]

    def take_back(self, origin_id: int) -> None:
        """The store failed: marks that were not durable are dropped."""
        self._pending.pop(origin_id, None)

    # --- in a snapshot ----------------------------------------------------------------------

    def dump(self) -> bytes:
        """Every durable mark."""
        durable = self._durable.items()
        return b"".join([_MARK.pack(origin_id, m.taken, m.fenced) for origin_id, m in durable])

    def load(self, data: bytes) -> None:
        """What `dump` wrote."""
        if len(data) % _MARK.size:
            raise StoreCorrupt("a snapshot's marks are truncated")
        for origin_id, number, fenced in _MARK.iter_unpack(data):
            self._durable[origin_id] = Mark(number, fenced)
