"""What one node knows of the leases: the answers of `Ownership`, without any waiting.

Owns the node's own leases by its monotonic clock, the last reading of the table, and when listeners
are notified of a change. A lease that lapsed by the node's clock is gone until it is acquired
again, even if no other node took it: the state of the lane was dropped here. Must never read the
table itself. Called by the implementations of `Ownership`, which pass in what they have read.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from partibus.control.lane_placement import place_lanes
from partibus.control.ownership import SERVE_MS, NodeAddress
from partibus.domain.clock import Clock


class LeaseTable(NamedTuple):
    """The table at one moment: its live nodes, which of them drain, and every lane's live owner."""

    nodes: Mapping[int, NodeAddress]
    draining: frozenset[int]
    owners: Mapping[int, int | None]
    """By lane; a lane without a live owner has None."""
    unreachable: Mapping[int, frozenset[int]] = MappingProxyType({})
    """By live node, the lanes that it has reported as out of reach."""


EMPTY: LeaseTable = LeaseTable({}, frozenset(), {})


class LeaseView:
    """The leases as a node sees them; `node` is 0 while it has not joined."""

    __slots__ = ("_clock", "_held", "_is_read", "_last", "_renewed_ms", "_table", "_wanted", "node")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.node = 0
        self._table = EMPTY
        self._is_read = False
        """Whether the table is as last read, without what was acquired here since."""
        self._held: frozenset[int] = frozenset()
        self._renewed_ms: int | None = None
        self._wanted: frozenset[int] = frozenset()
        self._last: object = None

    # --- what the node asks -------------------------------------------------------------

    def owned(self) -> frozenset[int]:
        """The lanes whose lease is held, by this node's clock."""
        return self._held if self.serve_ms_left() > 0 else frozenset()

    def owner_of(self, lane: int) -> int | None:
        """The owner by the last reading; of this node's lanes by its own clock."""
        if lane in self.owned():
            return self.node
        owner = self._table.owners.get(lane)
        return None if owner == self.node else owner

    def nodes(self) -> dict[int, NodeAddress]:
        """The live nodes by the last reading."""
        return dict(self._table.nodes)

    def wanted(self) -> frozenset[int]:
        """The lanes that the placement gives to this node."""
        return self._wanted

    def serve_ms_left(self) -> int:
        """How long the leases last, by this node's clock; 0 or less: they have lapsed."""
        if self._renewed_ms is None:
            return 0
        return self._renewed_ms + SERVE_MS - self._clock.monotonic_ms()

    # --- what was read or written -------------------------------------------------------

    def joined(self, node: int) -> None:
        """The node has its number."""
        self.node = node

    def drop_lapsed(self) -> None:
        """Forget leases that have lapsed by this node's clock."""
        if self.serve_ms_left() <= 0:
            self._held = frozenset()

    def strays(self) -> frozenset[int]:
        """Lanes that the table has for this node and that it does not hold: they lapsed here, or
        the answer to `acquire` was lost. They must be released."""
        owners = self._table.owners.items()
        return frozenset(lane for lane, owner in owners if owner == self.node) - self._held

    def renewed(self, begun_ms: int) -> None:
        """The table has accepted a renewal that was sent at this time of this node's clock."""
        self.drop_lapsed()
        self._renewed_ms = begun_ms

    def left(self) -> None:
        """The node is not in the table any more: it holds and wants nothing."""
        self._held = self._wanted = frozenset()
        self._renewed_ms = None

    def acquired(self, lane: int) -> None:
        """The table has given a lane to this node."""
        self._held |= {lane}
        self._table = self._table._replace(owners={**self._table.owners, lane: self.node})
        self._is_read = False

    def released(self, lane: int) -> None:
        """A lane is not this node's any more; called before the table is updated."""
        self._held -= {lane}

    def looked(self, table: LeaseTable) -> None:
        """Use the table as it was read."""
        if self._is_read and table == self._table:
            return
        self._table = table
        self._is_read = True
        self._held &= {lane for lane, owner in table.owners.items() if owner == self.node}
        owners = {lane: owner for lane, owner in table.owners.items() if owner is not None}
        decision = place_lanes(
            table.owners,
            owners,
            table.nodes.keys(),
            table.draining,
            unreachable=table.unreachable,
        )
        self._wanted = decision.get(self.node, frozenset())

    def notify(self, listener: Callable[[], None] | None) -> None:
        """Call the listener if anything visible to it has changed since the last call."""
        table, serves = self._table, self.serve_ms_left() > 0
        state = (dict(table.nodes), dict(table.owners), self.owned(), self._wanted, serves)
        if state != self._last:
            self._last = state
            if listener is not None:
                listener()
