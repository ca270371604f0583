"""Operators' requests to a cluster: its state, and draining or evicting a node.

Owns the requests and refusals behind `partibus cluster`; it uses only the tables, so no node has to
be reachable. The nodes move the lanes themselves, as for any other change. Called by the verbs,
with a connection of their own.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NamedTuple

from partibus.control.lane_placement import Move, place_lanes, planned_moves
from partibus.control.postgres import lane_seen, lease_rows
from partibus.control.postgres.lease_rows import LaneRow, LeaseRows, NodeRow
from partibus.control.postgres.listening import Listening
from partibus.control.postgres.session import ControlSession
from partibus.domain.errors import ArgumentError

POLL_S: Final = 1.0


class ClusterStatus(NamedTuple):
    """The nodes, the lanes with their live owners, and what is yet to move."""

    nodes: list[NodeRow]
    lanes: list[LaneRow]
    """The owner of a lane whose lease has lapsed is None."""
    moves: list[Move]
    holders: Mapping[int, int | None] = {}
    """By lane, the node that acquired it and has not released it, alive or not."""

    def held_by(self, node: int) -> list[int]:
        """The lanes that the tables have for a node, whether or not its lease is live."""
        return [lane for lane, holder in self.holders.items() if holder == node]

    def lanes_of(self, node: int) -> list[int]:
        """The lanes that a node holds."""
        return [row.number for row in self.lanes if row.owner == node]

    @property
    def is_settled(self) -> bool:
        """Whether every lane has an owner and none has to move."""
        return not self.moves and all(row.owner is not None for row in self.lanes)


def status_of(rows: LeaseRows) -> ClusterStatus:
    """The state in the tables."""
    table = rows.table()
    lanes = [row._replace(owner=table.owners[row.number]) for row in rows.lanes]
    owners = {lane: owner for lane, owner in table.owners.items() if owner is not None}
    nodes = table.nodes.keys()
    moves = planned_moves(owners, owners, nodes, table.draining, table.unreachable)
    return ClusterStatus(rows.nodes, lanes, moves, {row.number: row.owner for row in rows.lanes})


class ClusterOperations:
    """The cluster whose control plane is in a database."""

    def __init__(self, dsn: str) -> None:
        self._session = ControlSession(dsn, "operations")

    async def close(self) -> None:
        """Close the connection."""
        await self._session.close()

    async def status(self) -> ClusterStatus:
        """The current state of the cluster."""
        return status_of(await self._session.run(lease_rows.look))

    async def drain(self, node: int, *, dry_run: bool = False) -> list[Move]:
        """Have a node give its lanes away; refused when no other node could take them. Returns what
        will move; a dry run does nothing else."""
        status = await self.status()
        _find(status, node)
        others = [r for r in status.nodes if r.alive and not r.draining and r.number != node]
        if not others:
            raise ArgumentError(
                f"No other node can take the lanes of node {node}. Start one, or stop node {node}: "
                "its lanes then wait for the next node that starts."
            )
        if not dry_run:
            await self._set_draining(node, True)
        return _moves_without(status, node)

    async def resume(self, node: int) -> None:
        """Have a draining node take lanes again."""
        _find(await self.status(), node)
        await self._set_draining(node, False)

    async def rebalance(self, *, dry_run: bool = False) -> list[Move]:
        """Wake every node, so that lanes are spread evenly at once; returns what will move."""
        if not dry_run:
            await self._session.run(lease_rows.wake)
        return (await self.status()).moves

    async def evict(self, node: int, *, alive_too: bool = False) -> list[int]:
        """Remove a node that is gone or stuck; its lanes are free at once. Returns which they were.
        A live node is refused unless requested: it stops when it next renews its leases."""
        status = await self._before_evicting(node, alive_too)
        await self._session.run(partial(lease_rows.remove, node=node))
        return status.lanes_of(node)

    async def heirs(self, node: int, *, alive_too: bool = False) -> list[Move]:
        """Which nodes would get the lanes of a node if it were evicted; refused in the same
        cases."""
        return _inheritance(await self._before_evicting(node, alive_too), node)

    async def _before_evicting(self, node: int, alive_too: bool) -> ClusterStatus:
        status = await self.status()
        row = _find(status, node)
        if row.alive and not alive_too:
            raise ArgumentError(
                f"Node {node} is alive: its last heartbeat is {row.heartbeat_age_ms} ms old. Drain "
                "it, or evict it by force."
            )
        return status

    async def accept(self, lane: int) -> None:
        """Have a lane served although it went back: what it had beyond its present end is given
        up."""
        if not await self._session.run(partial(lane_seen.forget, lane=lane)):
            raise ArgumentError(f"There is nothing to accept for lane {lane}.")

    async def wait_for(self, holds: Callable[[ClusterStatus], bool]) -> ClusterStatus:
        """Wait until a condition holds, such as that a drained node has no lanes."""
        changed = asyncio.Event()
        listening = Listening(self._session.dsn, lease_rows.CHANNEL, changed.set)
        listening.start()
        try:
            while not holds(status := await self.status()):
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(POLL_S):
                        await changed.wait()
                changed.clear()
            return status
        finally:
            await listening.stop()

    async def _set_draining(self, node: int, draining: bool) -> None:
        await self._session.run(partial(lease_rows.set_draining, node=node, draining=draining))


def _moves_without(status: ClusterStatus, node: int) -> list[Move]:
    """What moves when a node must have no lanes."""
    owners = {row.number: row.owner for row in status.lanes if row.owner is not None}
    alive = [row.number for row in status.nodes if row.alive]
    draining = {row.number for row in status.nodes if row.draining} | {node}
    return planned_moves(owners, owners, alive, draining)


def _inheritance(status: ClusterStatus, node: int) -> list[Move]:
    """Which nodes get the lanes of a node that is gone; none when no other node is alive."""
    owners = {row.number: row.owner for row in status.lanes if row.owner is not None}
    alive = [row.number for row in status.nodes if row.alive and row.number != node]
    draining = [row.number for row in status.nodes if row.draining]
    lanes = [row.number for row in status.lanes]
    placed = place_lanes(lanes, owners, alive, draining, moves_max=0)
    mine = set(status.held_by(node))
    moves = [Move(lane, node, taker) for taker, found in placed.items() for lane in found & mine]
    return sorted(moves)


def _find(status: ClusterStatus, node: int) -> NodeRow:
    for row in status.nodes:
        if row.number == node:
            return row
    known = ", ".join(str(row.number) for row in status.nodes) or "none"
    raise ArgumentError(f"There is no node {node}; the nodes of the cluster are: {known}.")
