"""What an operator asks of a cluster: how it is, to drain a node, to spread lanes, to evict.

Owns these operations on the tables of the cluster's database, so that they work whether a node
answers or not. Moving lanes is the nodes' own work, which follows from the tables; here it is only
awaited. Called by `partibus cluster`.
"""

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any, Final

from partibus.control.postgres import lease_rows
from partibus.control.postgres.lease_rows import LeaseRows
from partibus.control.postgres.session import ControlSession, prepare
from partibus.domain.errors import EntityNotFound, OperationTimeout

LOOK_S: Final = 0.2

Report = dict[str, Any]


class ClusterDesk:
    """Asks and changes the tables of one cluster."""

    def __init__(self, session: ControlSession) -> None:
        self._session = session

    async def status(self) -> Report:
        """Every node and lane, as the database has them now."""
        return _report(await self._look())

    async def drain(self, node: int, wait_s: float, *, undo: bool = False) -> Report:
        """Have a node hand its lanes over, or take lanes again; returns when it has none."""
        change = partial(lease_rows.set_draining, node=node, draining=not undo)
        if not await self._session.run(change):
            raise _unknown(node)
        if undo:
            return await self.status()
        return await self._until(lambda found: not _lanes_of(found, node), wait_s, "drained")

    async def rebalance(self, wait_s: float) -> Report:
        """Have every live node take its share, those that were drained too."""
        for row in (await self._look()).nodes:
            if row.draining:
                change = partial(lease_rows.set_draining, node=row.number, draining=False)
                await self._session.run(change)
        return await self._until(_is_even, wait_s, "balanced")

    async def evict(self, node: int) -> Report:
        """Remove a node; its lanes are free at once, and it ends when it learns of it."""
        if not await self._session.run(partial(lease_rows.remove, node=node)):
            raise _unknown(node)
        return await self.status()

    async def _look(self) -> LeaseRows:
        return await self._session.run(lease_rows.look)

    async def _until(self, is_so: Callable[[LeaseRows], bool], wait_s: float, word: str) -> Report:
        for _ in range(max(1, math.ceil(wait_s / LOOK_S))):
            found = await self._look()
            if is_so(found):
                return _report(found)
            await asyncio.sleep(LOOK_S)
        raise OperationTimeout(
            f"The cluster is not {word} after {wait_s:g} s; lanes go on moving. See `partibus "
            "cluster status`, or give --wait more time."
        )


@contextlib.asynccontextmanager
async def desk(url: str) -> AsyncIterator[ClusterDesk]:
    """A desk at the cluster's database."""
    await asyncio.to_thread(prepare, url)
    session = ControlSession(url, "operations")
    try:
        yield ClusterDesk(session)
    finally:
        await session.close()


def _report(found: LeaseRows) -> Report:
    alive = {row.number for row in found.nodes if row.alive}
    nodes = [
        {
            "node": row.number,
            "address": f"{row.address.host}:{row.address.port}",
            "version": row.address.version,
            "state": "down" if not row.alive else "draining" if row.draining else "up",
            "heartbeat_ms": row.heartbeat_age_ms,
            "lanes": _lanes_of(found, row.number),
        }
        for row in found.nodes
    ]
    unowned = [row.number for row in found.lanes if row.owner not in alive]
    return {"nodes": nodes, "lanes": len(found.lanes), "unowned": unowned}


def _lanes_of(found: LeaseRows, node: int) -> list[int]:
    return [row.number for row in found.lanes if row.owner == node]


def _is_even(found: LeaseRows) -> bool:
    """Whether every lane has a live owner, and no node has more than one lane more than another."""
    counts = [len(_lanes_of(found, row.number)) for row in found.nodes if row.alive]
    return sum(counts) == len(found.lanes) and max(counts, default=0) - min(counts, default=0) <= 1


def _unknown(node: int) -> EntityNotFound:
    return EntityNotFound(
        f"The cluster has no node {node}; `partibus cluster status` shows which it has."
    )
