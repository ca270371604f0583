"""The tables of lanes in a simulated database, and their invariants.

Owns the rows of each lane: its head with epoch and tail, its segments, states and pages. A method
is one transaction and follows the rules of the statements in `store.postgres.lane`. Owns as well
the history of every lane, entry by entry: they form one chain, and epochs never decrease. Called
when a database executes a statement.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import psycopg

from partibus.simulation.cluster.database import DatabaseConnection, LockWait
from partibus.simulation.world import Violation
from partibus.store.postgres.lane import LaneRow, SegmentRow

Key = tuple[int, int]
"""Base and revision of a segment."""


class Table:
    """Rows by position, in their order."""

    def __init__(self) -> None:
        self.positions: list[int] = []
        self.payloads: list[bytes] = []
        self.held_bytes = 0

    def add(self, position: int, payload: bytes) -> None:
        """A row after all others."""
        if self.positions and position <= self.positions[-1]:
            raise psycopg.errors.UniqueViolation(f"position {position} is taken")
        self.positions.append(position)
        self.payloads.append(payload)
        self.held_bytes += len(payload)

    def from_position(self, start: int) -> int:
        """The index of the row at a position, or of the first after it."""
        return max(0, bisect_right(self.positions, start) - 1)

    def cut(self, position: int) -> None:
        """Delete the rows from a position on."""
        at = bisect_left(self.positions, position)
        self.held_bytes -= sum(map(len, self.payloads[at:]))
        del self.positions[at:], self.payloads[at:]

    def stretch(self, start: int, stop: int) -> bytes:
        """The bytes from one position up to another, as far as they exist."""
        found = []
        for at in range(self.from_position(start), len(self.positions)):
            position, payload = self.positions[at], self.payloads[at]
            if position >= stop:
                break
            found.append(payload[max(start - position, 0) : stop - position])
        return b"".join(found)


@dataclass(slots=True)
class LaneContent:
    """One lane."""

    number: int
    log_id: bytes = b""
    epoch: int = 0
    tail: int = 0
    checkpoint: int = 0
    segments: dict[int, SegmentRow] = field(default_factory=dict)
    tables: dict[Key, Table] = field(default_factory=dict)
    garbage: dict[Key, None] = field(default_factory=dict)
    states: dict[int, bytes] = field(default_factory=dict)
    pages: dict[int, bytes] = field(default_factory=dict)
    holders: dict[DatabaseConnection, None] = field(default_factory=dict)
    """The transactions that a takeover has to wait for."""
    server_lock: DatabaseConnection | None = None
    ends: dict[int, int] = field(default_factory=dict)
    """Where each entry ended, and the epoch that wrote it."""
    last_epoch: int = 0

    @property
    def name(self) -> str:
        """In reports."""
        return f"lane-{self.number}"

    @property
    def used_bytes(self) -> int:
        """The bytes of its rows."""
        tables = sum(table.held_bytes for table in self.tables.values())
        return tables + sum(map(len, [*self.states.values(), *self.pages.values()]))

    def row(self) -> LaneRow:
        """Its head."""
        return LaneRow(self.log_id, self.epoch, self.tail, self.checkpoint)

    # --- who writes ---------------------------------------------------------------------------

    def raise_epoch(self, connection: DatabaseConnection, log_id: bytes, first: int) -> LaneRow:
        """A new writer, when no transaction of the lane is open."""
        if any(holder is not connection for holder in self.holders):
            raise LockWait
        if not self.log_id:
            self.log_id, self.tail, self.checkpoint = log_id, first, first
        self.epoch += 1
        return self.row()

    def lock(self, connection: DatabaseConnection) -> None:
        """The lock of a single server."""
        if self.server_lock not in (None, connection):
            raise LockWait
        if self.server_lock is None:
            self.server_lock = connection
            connection.at_end.append(self._unlock)

    def _unlock(self) -> None:
        self.server_lock = None

    def take_back(self, epoch: int, durable: int) -> int | None:
        """Cut the log, as its writer; None when the lane has another writer."""
        if self.epoch != epoch or self.tail < durable:
            return None
        self.epoch += 1
        self.tail = durable
        for key, table in self.tables.items():
            if not key[1]:
                table.cut(durable)
        for end in [end for end in self.ends if end > durable]:
            del self.ends[end]
        return self.epoch

    def hold(self, connection: DatabaseConnection, epoch: int) -> bool:
        """Make a takeover wait until `let_go`; False when the epoch has changed."""
        if self.epoch != epoch:
            return False
        self.holders[connection] = None
        connection.at_end.append(lambda: self.let_go(connection))
        return True

    def let_go(self, connection: DatabaseConnection) -> None:
        """The transaction is over."""
        self.holders.pop(connection, None)

    # --- the log ------------------------------------------------------------------------------

    def add_segment(self, epoch: int, base: int) -> None:
        """A table, and its row if this is the writer."""
        if self.epoch == epoch and base not in self.segments:
            self.segments[base] = SegmentRow(base, 0, None)
        self.tables.setdefault((base, 0), Table())

    def append(self, epoch: int, base: int, end: int, position: int, payload: bytes) -> int:
        """How many rows were added: 1, or 0 when the epoch or the tail differs."""
        if self.epoch != epoch or self.tail != position:
            return 0
        self.table((base, 0)).add(position, payload)
        if end != position + len(payload):
            raise Violation(f"{self.name}: an entry at {position} ends at {end}, not where it says")
        if epoch < self.last_epoch:
            raise Violation(
                f"{self.name}: an entry of epoch {epoch} follows one of {self.last_epoch}"
            )
        self.tail = end
        self.ends[end] = self.last_epoch = epoch
        return 1

    def table(self, key: Key) -> Table:
        """A table that must exist."""
        found = self.tables.get(key)
        if found is None:
            raise psycopg.errors.UndefinedTable(f"{self.name} has no table {key}")
        return found

    def drop(self, epoch: int, key: Key) -> bool:
        """Drop a segment, as its writer; False when the lane has another writer."""
        if self.epoch != epoch:
            return False
        self.tables.pop(key, None)
        self.garbage.pop(key, None)
        row = self.segments.get(key[0])
        if row is not None and row.revision == key[1]:
            del self.segments[key[0]]
        return True

    def drop_garbage(self) -> None:
        """Drop what compactions left behind."""
        for key in self.garbage:
            self.tables.pop(key, None)
        self.garbage.clear()

    def rows(self, key: Key, start: int) -> list[tuple[int, bytes]]:
        """The rows of a table from the one at a position on."""
        table = self.table(key)
        at = table.from_position(start)
        return list(zip(table.positions[at:], table.payloads[at:], strict=True))

    def rows_behind(self, key: Key, position: int, count: int) -> list[tuple[int, bytes]]:
        """The next rows."""
        table = self.table(key)
        at = bisect_right(table.positions, position)
        end = at + count
        return list(zip(table.positions[at:end], table.payloads[at:end], strict=True))

    # --- compaction ---------------------------------------------------------------------------

    def begin_kept(self, epoch: int, key: Key) -> bool:
        """An empty table; False when the lane has another writer."""
        if self.epoch != epoch:
            return False
        self.garbage[key] = None
        self.tables[key] = Table()
        return True

    def keep(self, source: Key, target: Key, refs: Sequence[tuple[int, int]]) -> None:
        """Copy bodies."""
        found, into = self.table(source), self.table(target)
        for place, length in refs:
            into.add(place, found.stretch(place, place + length))

    def swap(self, epoch: int, sources: Sequence[Key], target: Key, kept_until: int) -> bool:
        """Make the new table valid; False when the lane has another writer."""
        if self.epoch != epoch:
            return False
        for base, _ in sources:
            self.segments.pop(base, None)
        self.segments[target[0]] = SegmentRow(target[0], target[1], kept_until)
        self.garbage.pop(target, None)
        self.garbage.update(dict.fromkeys(sources))
        return True

    # --- checkpoints --------------------------------------------------------------------------

    def keep_checkpoint(
        self,
        position: int,
        gone: Iterable[int],
        pages: Iterable[tuple[int, bytes]],
        states: dict[int, bytes],
    ) -> None:
        """In one transaction."""
        for number in gone:
            self.pages.pop(number, None)
        self.pages.update(pages)
        self.states = dict(states)
        self.checkpoint = position
