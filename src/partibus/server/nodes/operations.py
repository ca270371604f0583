"""What `partibus cluster` asks of a cluster, as reports for people and programs.

Owns the form of these reports, and how long an operator waits for lanes that move.
`control.postgres.operations` does the work, which needs no running node. Called by the verbs.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

from partibus.control.postgres.operations import ClusterOperations, ClusterStatus
from partibus.domain.errors import ArgumentError, OperationTimeout

Report = dict[str, Any]


class ClusterService:
    """Asks one cluster."""

    def __init__(self, operations: ClusterOperations) -> None:
        self._operations = operations

    async def status(self) -> Report:
        """Every node and lane, as they are in the database now."""
        return _report(await self._operations.status())

    async def number_of(self, name: str) -> int:
        """The live node with that name in its certificate; of several the one that joined last."""
        nodes = (await self._operations.status()).nodes
        found = [row.number for row in nodes if row.alive and row.address.name == name]
        if not found:
            known = ", ".join(sorted({row.address.name for row in nodes if row.alive})) or "none"
            raise ArgumentError(f"No live node is named '{name}'. The live nodes are: {known}.")
        return max(found)

    async def drain(self, node: int, wait_s: float) -> Report:
        """Have a node hand its lanes over; returns when other nodes have them."""

        def is_drained(status: ClusterStatus) -> bool:
            return all(row.owner not in (None, node) for row in status.lanes)

        await self._operations.drain(node)
        return await self._until(is_drained, wait_s, "drained")

    async def resume(self, node: int) -> Report:
        """Have a drained node take lanes again."""
        await self._operations.resume(node)
        return await self.status()

    async def rebalance(self, wait_s: float) -> Report:
        """Return when every lane has an owner and none is to move."""
        await self._operations.rebalance()
        return await self._until(lambda status: status.is_settled, wait_s, "balanced")

    async def evict(self, node: int, *, force: bool) -> Report:
        """Remove a node; its lanes are free at once, and it stops when it notices."""
        await self._operations.evict(node, alive_too=force)
        return await self.status()

    async def accept(self, lane: int) -> Report:
        """Have a lane served although it went back; the node that wants it opens it by itself."""
        await self._operations.accept(lane)
        return await self.status()

    async def _until(
        self, holds: Callable[[ClusterStatus], bool], wait_s: float, word: str
    ) -> Report:
        try:
            async with asyncio.timeout(wait_s):
                return _report(await self._operations.wait_for(holds))
        except TimeoutError:
            raise OperationTimeout(
                f"The cluster is not {word} after {wait_s:g} s; lanes continue to move. See "
                "`partibus cluster status`, or give --wait more time."
            ) from None


@contextlib.asynccontextmanager
async def cluster_service(url: str) -> AsyncIterator[ClusterService]:
    """The service at the cluster's database, for as long as it is used."""
    operations = ClusterOperations(url)
    try:
        yield ClusterService(operations)
    finally:
        await operations.close()


def _report(status: ClusterStatus) -> Report:
    nodes = [
        {
            "node": row.number,
            "name": row.address.name,
            "address": f"{row.address.host}:{row.address.port}",
            "version": row.address.version,
            "state": "down" if not row.alive else "draining" if row.draining else "up",
            "heartbeat_ms": row.heartbeat_age_ms,
            "lanes": status.lanes_of(row.number),
        }
        for row in status.nodes
    ]
    unowned = [row.number for row in status.lanes if row.owner is None]
    moves = [{"lane": move.lane, "to": move.target} for move in status.moves]
    return {"nodes": nodes, "lanes": len(status.lanes), "unowned": unowned, "moves": moves}
