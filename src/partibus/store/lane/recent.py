"""The newest entries of a lane in memory, from which nearly all deliveries are served.

Owns the bytes of entries up to a limit; the oldest go first. Knows positions and nothing of
records. Runs on the loop thread; called by the store.
"""

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Final

RECENT_BYTES: Final = 32 << 20
TRIM_COUNT: Final = 1024


@dataclass(eq=False, slots=True)
class RecentEntries:
    """Entries by position, each with its bytes."""

    limit_bytes: int = RECENT_BYTES
    _positions: list[int] = field(init=False, default_factory=list)
    _entries: list[bytes] = field(init=False, default_factory=list)
    _first: int = field(init=False, default=0)
    """The index of the oldest entry kept; those before it were dropped."""
    held_bytes: int = field(init=False, default=0)

    def add(self, position: int, entry: bytes) -> None:
        """The newest entry."""
        self._positions.append(position)
        self._entries.append(entry)
        self.held_bytes += len(entry)
        while self.held_bytes > self.limit_bytes:
            self._let_oldest_go()

    def _let_oldest_go(self) -> None:
        first = self._first
        self.held_bytes -= len(self._entries[first])
        self._entries[first] = b""
        self._first = first + 1
        if self._first >= TRIM_COUNT:
            del self._positions[: self._first], self._entries[: self._first]
            self._first = 0

    def entry_at(self, position: int) -> tuple[int, bytes] | None:
        """The entry at a position, and where it begins; None when it is not kept."""
        index = bisect_right(self._positions, position) - 1
        if index < self._first:
            return None
        return self._positions[index], self._entries[index]

    def cut(self, tail: int) -> None:
        """Entries after `tail` never became durable."""
        while len(self._positions) > self._first and self._positions[-1] >= tail:
            self._positions.pop()
            self.held_bytes -= len(self._entries.pop())
