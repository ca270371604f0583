"""What a fragment keeps for its cursors after its receivers have settled it.

Owns the cursors, the table of kept messages and the limits on both, and their form in snapshots.
Without a cursor nothing is kept and nothing here costs anything. `behaviour` decides what may
change and when.
"""

import struct
from collections.abc import Iterable
from itertools import islice
from typing import Final

from partibus.domain.errors import StoreCorrupt
from partibus.fragment.cursors.commands import CursorSummary
from partibus.fragment.effects import Effects
from partibus.fragment.message import Held
from partibus.fragment.paging import NewPages
from partibus.fragment.queue.history import Part
from partibus.fragment.queue.table import MessageTable
from partibus.fragment.state import State
from partibus.fragment.table_snapshot import TableReader, dump_table

CURSORS_MAX: Final = 1000
"""How many cursors a fragment may have; each costs little, but nobody needs more."""
TRIM_SHARE: Final = 8
"""Over the limit, an eighth more than needed is discarded, so that trimming is rare."""
TRIM_MESSAGES_MAX: Final = 4096
"""What one trim discards: a few milliseconds; the next follows after a moment."""
_CURSOR: Final = struct.Struct("<HQQQQ")
_HEAD: Final = struct.Struct("<QI")


class Retention:
    """The cursors of a fragment and what is kept for them."""

    __slots__ = ("byte_count", "cursors", "floor", "low", "table", "trimming")

    def __init__(self) -> None:
        self.cursors: dict[str, CursorSummary] = {}
        self.table = MessageTable()
        """Settled messages that a cursor has not passed."""
        self.byte_count = 0
        self.floor = 0
        """Below this number nothing is kept: a limit was reached."""
        self.low = 0
        """The lowest number to keep: that of the last cursor, or the floor."""
        self.trimming = False
        """A new floor is being made durable; no other is requested."""

    def place(self, cursor: CursorSummary) -> list[Held]:
        """Place a cursor; returns what is no longer needed."""
        self.cursors[cursor.name] = cursor
        return self.trim()

    def trim(self) -> list[Held]:
        """Take out what no cursor needs or what exceeds the limits."""
        positions = [cursor.position for cursor in self.cursors.values()]
        self.low = max(self.floor, min(positions, default=1 << 62))
        table = self.table
        gone: list[Held] = []
        while len(table) and table.first_sequence < self.low:
            held = table.pop()
            self.byte_count -= held.length
            gone.append(held)
        return gone

    def add(self, held: Held) -> None:
        """Keep a message; the caller goes on using its own object."""
        self.table.insert(held)
        self.byte_count += held.length

    @property
    def window_ms(self) -> int:
        """The age up to which a message is kept."""
        return max([cursor.retain_ms for cursor in self.cursors.values()], default=0)

    @property
    def bytes_max(self) -> int:
        """How much may be kept."""
        return max([cursor.retain_bytes for cursor in self.cursors.values()], default=0)

    def next_trim_ms(self) -> int | None:
        """When the oldest kept message is too old, or at once when too much is kept; None when
        nothing is kept, or a trim is under way."""
        oldest = self.table.first_enqueued_ms
        if oldest is None or self.trimming:
            return None
        return 0 if self.byte_count > self.bytes_max else oldest + self.window_ms

    def floor_wanted(self, now_ms: int) -> int:
        """The floor that the limits require; the present one when they require no other."""
        too_old_ms = now_ms - self.window_ms
        excess = 0
        if self.byte_count > self.bytes_max:
            excess = self.byte_count - self.bytes_max + self.bytes_max // TRIM_SHARE
        floor = self.floor
        for held in islice(self.table.copies(0), TRIM_MESSAGES_MAX):
            if held.enqueued_ms > too_old_ms and excess <= 0:
                break
            excess -= held.length
            floor = held.sequence + 1
        return floor


def keep(state: State, messages: Iterable[Held], out: Effects) -> None:
    """Messages leave for good: those that a cursor has not passed are kept for it."""
    retention = state.retention
    if retention is None or not retention.cursors:
        return
    for held in messages:
        if held.sequence >= retention.low:
            retention.add(held)
            out.retained.append((held.position, held.length))


def keep_replayed(state: State, held: Held) -> None:
    """The same in recovery, where nothing is released yet."""
    retention = state.retention
    if retention is not None and retention.cursors and held.sequence >= retention.low:
        retention.add(held)


def dump_retention(state: State, pages: NewPages | None) -> list[Part] | None:
    """The cursors, followed by the table of the kept messages."""
    retention = state.retention
    if retention is None:
        return None
    parts: list[Part] = [_HEAD.pack(retention.floor, len(retention.cursors))]
    parts += [encode_cursor(cursor) for cursor in retention.cursors.values()]
    dump_table(retention.table, [], parts, pages)
    return parts


def load_retention(state: State, data: bytes, tables: TableReader) -> None:
    """What `dump_retention` wrote."""
    retention = state.retention = Retention()
    retention.floor, count = _HEAD.unpack_from(data, 0)
    offset = _HEAD.size
    for _ in range(count):
        cursor, offset = decode_cursor(data, offset)
        retention.cursors[cursor.name] = cursor
    retention.trim()
    tables.load(retention.table, data, offset)
    retention.byte_count = retention.table.byte_count()


def encode_cursor(cursor: CursorSummary) -> bytes:
    """A cursor as written in records and snapshots."""
    name = cursor.name.encode()
    numbers = (cursor.position, cursor.retain_ms, cursor.retain_bytes, cursor.moved_ms)
    return _CURSOR.pack(len(name), *numbers) + name


def decode_cursor(data: bytes, offset: int) -> tuple[CursorSummary, int]:
    """The cursor at an offset, and the offset after it."""
    size, position, retain_ms, retain_bytes, moved_ms = _CURSOR.unpack_from(data, offset)
    offset += _CURSOR.size
    if offset + size > len(data):
        raise StoreCorrupt("the name of a cursor is truncated")
    name = data[offset : offset + size].decode()
    return CursorSummary(name, position, retain_ms, retain_bytes, moved_ms), offset + size
