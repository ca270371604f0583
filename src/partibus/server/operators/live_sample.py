"""What moves in this process: messages that came and went, depths, stores, connections.

Owns one worker's answer to the question `live`, asked every second while consoles are open. It
reads counters that are kept anyway: arrivals are the next sequence number, departures are arrivals
less what is there. Of many fragments it reads only those that have changed, so it does not slow
messages down. Called by the feed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from partibus.cluster.control_hub import ControlHub, Payload
from partibus.control.catalog.catalog import Catalog
from partibus.domain.entity import EntityKind
from partibus.fragment.broker import Broker
from partibus.fragment.machine import Machine
from partibus.gateway.gateway import Gateway
from partibus.server.operators.changed_fragments import ChangedFragments, ChangeNumbers
from partibus.server.operators.inspection import store_fields

LIVE: Final = "live"
AGE_MS_MAX: Final = 400
"""A question that comes sooner gets the same answer: several consoles cost as much as one."""
BUSY_MS: Final = 3_000
BUSY_FRAGMENTS_MAX: Final = 2_000
SHOWN: Final = ("active", "dead_letter", "scheduled", "deferred", "locked")


class _Row:
    """A fragment at its last reading."""

    __slots__ = ("arrived", "changed_ms", "counts", "left")

    def __init__(self) -> None:
        self.changed_ms = 0
        self.arrived = 0
        self.left = 0
        self.counts: tuple[int, ...] = (0,) * len(SHOWN)

    def look(self, machine: Machine, now_ms: int) -> None:
        """Read the counters; a difference makes it busy for a while."""
        counts, state = machine.state.counts(), machine.state
        arrived = state.next_sequence_durable - 1
        present = counts.active + counts.dead_letter + counts.scheduled + counts.deferred
        left = max(0, arrived - present - counts.transfer_dead_letter - counts.transfer)
        shown = tuple(getattr(counts, name) for name in SHOWN)
        if (arrived, left, shown) != (self.arrived, self.left, self.counts):
            self.arrived, self.left, self.counts = arrived, left, shown
            self.changed_ms = now_ms


@dataclass(eq=False)
class LiveSample:
    """The counters of this process, read at most a few times a second."""

    brokers: Mapping[int, Broker]
    machines: Mapping[int, Machine]
    catalog: Catalog
    gateway: Gateway
    numbers: ChangeNumbers | None = None

    def __post_init__(self) -> None:
        own = ChangeNumbers(self.machines, self.gateway.monotonic_ms)
        self._changed = ChangedFragments(self.numbers or own)
        self._rows: dict[int, _Row] = {}
        self._kinds: dict[int, EntityKind] = {}
        self._generation = -1
        self._sums = [0] * (2 + len(SHOWN))
        """What came, what left, and the depths of all fragments."""
        self._busy: set[int] = set()
        self._last: Payload = {}
        self._reported_ms = -AGE_MS_MAX - 1

    def register(self, control: ControlHub) -> None:
        """Register the question of this process."""
        control.register(LIVE, self.answer)

    def answer(self, _payload: Payload) -> Payload:
        """Totals, stores, and the active fragments."""
        now_ms = self.gateway.monotonic_ms()
        if now_ms - self._reported_ms > AGE_MS_MAX:
            self._look(now_ms)
            self._last, self._reported_ms = self._summary(now_ms), now_ms
        return self._last

    def _look(self, now_ms: int) -> None:
        if self._generation != self.catalog.generation:
            self._learn()
        rows, machines = self._rows, self.machines
        changed, _ = self._changed.take(AGE_MS_MAX)
        for fragment_id in {*changed, *self._busy}:
            machine = machines.get(fragment_id)
            if machine is not None:
                self._look_at(fragment_id, machine, now_ms)
        self._busy = {n for n in self._busy if n in rows and now_ms - rows[n].changed_ms < BUSY_MS}

    def _look_at(self, fragment_id: int, machine: Machine, now_ms: int) -> None:
        row = self._rows.get(fragment_id)
        is_new = row is None
        if row is None:
            row = self._rows[fragment_id] = _Row()
        before = (row.arrived, row.left, *row.counts)
        row.look(machine, now_ms)
        after = (row.arrived, row.left, *row.counts)
        if before != after:
            self._add(fragment_id, before, -1)
            self._add(fragment_id, after, 1)
            if not is_new:  # its first reading is not activity
                self._busy.add(fragment_id)

    def _add(self, fragment_id: int, row: tuple[int, ...], sign: int) -> None:
        kind, sums = self._kinds.get(fragment_id), self._sums
        # A message of a topic arrives once, and leaves once from each subscription.
        for at, amount in enumerate(row):
            if kind is not (EntityKind.SUBSCRIPTION if at == 0 else EntityKind.TOPIC):
                sums[at] += sign * amount

    def _learn(self) -> None:
        """Entities were created or deleted."""
        self._generation = self.catalog.generation
        self._kinds = {
            placement.fragment_id: record.kind
            for record in self.catalog.entities()
            for placement in record.fragments
        }
        self._rows = {n: row for n, row in self._rows.items() if n in self.machines}
        self._sums = [0] * len(self._sums)
        for fragment_id, row in self._rows.items():
            self._add(fragment_id, (row.arrived, row.left, *row.counts), 1)

    def _summary(self, now_ms: int) -> Payload:
        arrived, left, *totals = self._sums
        busy: dict[str, Any] = {}
        for fragment_id in sorted(self._busy)[:BUSY_FRAGMENTS_MAX]:
            row = self._rows[fragment_id]
            busy[str(fragment_id)] = [row.arrived, row.left, *row.counts]
        return {
            "at_ms": now_ms,
            "arrived": arrived,
            "left": left,
            "totals": totals,
            "busy": busy,
            "connections": self.gateway.connection_count,
            "stores": {str(n): store_fields(broker) for n, broker in self.brokers.items()},
        }
