"""Leases in memory: several nodes of one process share a table, as those of a cluster do.

Owns the table with its own clock, which plays the database's, and an `Ownership` over it with the
clock of a node. Time passes only by the clocks; their driver calls `renew` each second, or provides
a timer such as `loop.call_later`. Follows the rules of the table in PostgreSQL, so that tests
see the same leases. Never blocks.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

from partibus.control.lease_view import LeaseTable, LeaseView
from partibus.control.ownership import LEASE_MS, RENEW_MS, NodeAddress
from partibus.domain.clock import Clock


class Cancellable(Protocol):
    """A scheduled call."""

    def cancel(self) -> None:
        """Cancel the call."""
        ...


Later = Callable[[float, Callable[[], None]], Cancellable]
"""Call something after this many seconds; for example `loop.call_later`."""


class MemoryLeases:
    """The table that the nodes share; `clock` is its own."""

    def __init__(self, lanes: int, clock: Clock) -> None:
        self._clock = clock
        self._owners: dict[int, int | None] = dict.fromkeys(range(lanes))
        self._nodes: dict[int, NodeAddress] = {}
        self._heartbeats_ms: dict[int, int] = {}
        self._draining: set[int] = set()
        self._unreachable: dict[int, frozenset[int]] = {}
        self._last_number = 0
        self._followers: list[Callable[[], None]] = []

    def follow(self, look: Callable[[], None]) -> None:
        """Call `look` in a turn of its own after each change."""
        self._followers.append(look)

    def unfollow(self, look: Callable[[], None]) -> None:
        """Stop calling it."""
        self._followers.remove(look)

    def join(self, address: NodeAddress) -> int:
        """A new node; returns its number, which no other node had or will have."""
        self._last_number += 1
        self._nodes[self._last_number] = address
        self._heartbeats_ms[self._last_number] = self._clock.monotonic_ms()
        self._changed()
        return self._last_number

    def renew(self, node: int) -> bool:
        """Write the node's heartbeat; False when the node was evicted."""
        if node not in self._nodes:
            return False
        was_alive = self._is_alive(node)
        self._heartbeats_ms[node] = self._clock.monotonic_ms()
        if not was_alive:
            self._changed()
        return True

    def acquire(self, node: int, lane: int) -> bool:
        """Take a lane without a live lease."""
        owner = self._owners[lane]
        if not self._is_alive(node) or (owner not in (None, node) and self._is_alive(owner)):
            return False
        self._owners[lane] = node
        self._changed()
        return True

    def holder_of(self, lane: int) -> int | None:
        """The node that last acquired a lane and has not released it, alive or not."""
        return self._owners[lane]

    def release(self, node: int, lane: int) -> None:
        """Release a lane, if it is the node's."""
        if self._owners.get(lane) == node:
            self._owners[lane] = None
            self._changed()

    def leave(self, node: int) -> None:
        """A node leaves, or is evicted: its lanes are free at once."""
        if self._nodes.pop(node, None) is not None:
            del self._heartbeats_ms[node]
            self._draining.discard(node)
            self._unreachable.pop(node, None)
            for lane, owner in self._owners.items():
                if owner == node:
                    self._owners[lane] = None
            self._changed()

    def drain(self, node: int, draining: bool = True) -> None:
        """Have a node give its lanes away, or take lanes again."""
        (self._draining.add if draining else self._draining.discard)(node)
        self._changed()

    def report_unreachable(self, node: int, lanes: frozenset[int]) -> None:
        """A node cannot reach exactly these lanes now."""
        if self._unreachable.get(node, frozenset()) != lanes:
            self._unreachable[node] = lanes
            self._changed()

    def table(self) -> LeaseTable:
        """What a node reads."""
        alive = {node: self._nodes[node] for node in self._nodes if self._is_alive(node)}
        owners = {lane: o if o in alive else None for lane, o in self._owners.items()}
        unreachable = {n: lanes for n, lanes in self._unreachable.items() if n in alive}
        return LeaseTable(alive, frozenset(self._draining & alive.keys()), owners, unreachable)

    def _is_alive(self, node: int | None) -> bool:
        if node is None or node not in self._heartbeats_ms:
            return False
        return self._clock.monotonic_ms() - self._heartbeats_ms[node] < LEASE_MS

    def _changed(self) -> None:
        loop = asyncio.get_running_loop()
        for look in self._followers:
            loop.call_soon(look)


class MemoryOwnership:
    """The lanes as one node sees them; `cut_off` simulates a lost connection to the database."""

    def __init__(
        self, leases: MemoryLeases, address: NodeAddress, clock: Clock, later: Later | None = None
    ) -> None:
        self._leases = leases
        self._address = address
        self._clock = clock
        self._later = later
        self._timer: Cancellable | None = None
        self._view = LeaseView(clock)
        self.on_change: Callable[[], None] | None = None
        self.cut_off = False
        self.node = 0
        self.takeovers = 0
        self.renewals_failed = 0

    def owner_of(self, lane: int) -> int | None:
        """The node with a live lease, as far as is known here."""
        return self._view.owner_of(lane)

    def owned(self) -> frozenset[int]:
        """The lanes whose lease this node holds by its own clock."""
        return self._view.owned()

    def serve_ms_left(self) -> int:
        """How long the leases last, by this node's clock."""
        return self._view.serve_ms_left()

    def nodes(self) -> dict[int, NodeAddress]:
        """The live nodes."""
        return self._view.nodes()

    def wanted(self) -> frozenset[int]:
        """The lanes that this node should own."""
        return self._view.wanted()

    async def start(self) -> None:
        """Join under a new number."""
        self._view.renewed(self._clock.monotonic_ms())
        self.node = self._leases.join(self._address)
        self._view.joined(self.node)
        self._leases.follow(self._look)
        self._look()
        self._set_timer()

    async def stop(self) -> None:
        """Leave; when cut off, the node's lanes lapse."""
        if self._timer is not None:
            self._timer.cancel()
        self.on_change = None
        self._leases.unfollow(self._look)
        self._view.left()
        if not self.cut_off:
            self._leases.leave(self.node)

    async def acquire(self, lane: int) -> bool:
        """Take a lease that is free or has lapsed."""
        self._view.drop_lapsed()
        if self.cut_off or self._view.serve_ms_left() <= 0:
            return False
        holder = self._leases.holder_of(lane)
        taken = self._leases.acquire(self.node, lane)
        if taken:
            self._view.acquired(lane)
            self.takeovers += holder not in (None, self.node)
        return taken

    async def release(self, lane: int) -> None:
        """Release a lease."""
        self._view.released(lane)
        if not self.cut_off:
            self._leases.release(self.node, lane)

    async def report_unreachable(self, lanes: frozenset[int]) -> None:
        """Exactly these lanes cannot be reached from here now."""
        if not self.cut_off:
            self._leases.report_unreachable(self.node, lanes)

    def renew(self) -> None:
        """Renew and read the table, as every second; without the database leases only lapse."""
        if self.cut_off:
            self.renewals_failed += 1
        else:
            if self._leases.renew(self.node):
                self._view.renewed(self._clock.monotonic_ms())
            else:
                self._view.left()
            self._look()
            for lane in self._view.strays():
                self._leases.release(self.node, lane)
        self._view.notify(self.on_change)

    def _look(self) -> None:
        if not self.cut_off:
            self._view.looked(self._leases.table())
            self._view.notify(self.on_change)

    def _set_timer(self) -> None:
        if self._later is not None:
            self._timer = self._later(RENEW_MS / 1000, self._renew_and_set_timer)

    def _renew_and_set_timer(self) -> None:
        self._set_timer()
        self.renew()
