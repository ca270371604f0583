"""The lease table of a simulated cluster, and a node's connection to it.

Owns the nodes and lanes as the cluster's database has them, by the clock of that database, and
connections that are awaited. Its functions have the names and the rules of those in
`control.postgres.lease_rows`, which they replace; how a node uses their answers is the product's
own code.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import TypeVar

import psycopg

from partibus.control.ownership import LEASE_MS, NodeAddress
from partibus.control.postgres.lease_rows import LaneRow, LeaseRows, NodeRow, Renewal
from partibus.simulation.cluster.database import CONNECT_US, DatabaseConnection
from partibus.simulation.cluster.lane import LaneServer
from partibus.simulation.event_loop import SimulatedLoop
from partibus.simulation.threads import Threads
from partibus.simulation.world import World

T = TypeVar("T")


@dataclass(slots=True)
class NodeEntry:
    """A node in the table."""

    address: NodeAddress
    heartbeat_ms: int
    draining: bool = False


class ControlServer(LaneServer):
    """A database with the leases of a cluster, besides lanes."""

    def __init__(self, world: World, threads: Threads, name: str) -> None:
        super().__init__(world, threads, name)
        self.nodes: dict[int, NodeEntry] = {}
        self.owners: dict[int, int | None] = {}
        self._databases: dict[int, int] = {}
        self._last_number = 0
        self.listeners: dict[ControlConnection, None] = {}

    def add_lanes(self, lanes: int, databases: int) -> None:
        """The lanes of a new cluster."""
        self.owners = dict.fromkeys(range(lanes))
        self._databases = {lane: lane % databases for lane in range(lanes)}

    def is_alive(self, node: int | None) -> bool:
        """Whether a node's heartbeat is recent."""
        entry = None if node is None else self.nodes.get(node)
        return entry is not None and abs(self.now_ms() - entry.heartbeat_ms) < LEASE_MS

    def join(self, address: NodeAddress) -> int:
        self._last_number += 1
        self.nodes[self._last_number] = NodeEntry(address, self.now_ms())
        self.notify()
        return self._last_number

    def renew(self, node: int) -> Renewal:
        entry = self.nodes.get(node)
        if entry is not None:
            entry.heartbeat_ms = self.now_ms()
        alive = [number for number in self.nodes if self.is_alive(number)]
        return Renewal(entry is not None, len(alive), sum(alive))

    def look(self) -> LeaseRows:
        now_ms = self.now_ms()
        nodes = [
            NodeRow(n, e.address, self.is_alive(n), e.draining, now_ms - e.heartbeat_ms)
            for n, e in self.nodes.items()
        ]
        lanes = [LaneRow(n, self._databases[n], owner) for n, owner in self.owners.items()]
        return LeaseRows(nodes, lanes)

    def acquire(self, node: int, lane: int) -> bool:
        owner = self.owners[lane]
        if not self.is_alive(node) or (owner not in (None, node) and self.is_alive(owner)):
            return False
        self.owners[lane] = node
        self.notify()
        return True

    def release(self, node: int, lanes: list[int]) -> None:
        for lane in lanes:
            if self.owners[lane] == node:
                self.owners[lane] = None
                self.notify()

    def remove(self, node: int) -> bool:
        if self.nodes.pop(node, None) is None:
            return False
        for lane, owner in self.owners.items():
            if owner == node:
                self.owners[lane] = None
        self.notify()
        return True

    def drain(self, node: int, draining: bool) -> None:
        if node in self.nodes:
            self.nodes[node].draining = draining
            self.notify()

    def notify(self) -> None:
        """Wake the listeners."""
        for connection in list(self.listeners):
            if connection.closed or connection.is_over:
                del self.listeners[connection]
            elif not connection.is_silent:
                self.world.after(self.delay_us(), connection.hear)


class ControlConnection(DatabaseConnection):
    """An awaited connection of a node; replaces `psycopg.AsyncConnection`."""

    _heard: "asyncio.Future[bool] | None" = None

    @property
    def pgconn(self) -> "ControlConnection":
        """What `shut_down` closes."""
        return self

    async def ask(self, work: Callable[[], T], *, changes: bool = False) -> T:
        """Execute something."""
        request = self.send(work, changes=changes)
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        request.waiting = future
        return await future

    async def execute(self, statement: object) -> None:
        """The one statement that is not in `lease_rows`: listen."""
        server = self.server
        assert isinstance(server, ControlServer)
        await self.ask(lambda: server.listeners.update({self: None}))

    async def notifies(
        self,
        *,
        timeout: float,  # noqa: ASYNC109 - the driver's
        stop_after: int,
    ) -> AsyncIterator[None]:
        """Wait for a notification, for a while."""
        self._heard = heard = asyncio.get_running_loop().create_future()
        await asyncio.wait({heard}, timeout=timeout)
        self._heard = None
        if not heard.done():
            return
        if heard.result():
            raise psycopg.OperationalError("the connection is lost")
        yield None

    def hear(self, is_lost: bool = False) -> None:
        """A notification arrives, or the end of the connection."""
        if self._heard is not None:
            self._heard.get_loop().call_soon(_end_wait, self._heard, is_lost)

    def _lost(self) -> None:
        super()._lost()
        self.hear(is_lost=True)

    async def close(self) -> None:  # type: ignore[override]
        super().close()

    def shut_down(self) -> None:
        """End the waits for answers."""
        super().close()


class ControlPlane:
    """Driver, statements and notifications for the modules of `control.postgres`."""

    def __init__(self, server: ControlServer) -> None:
        self._server = server
        self.Error = psycopg.Error
        self.AsyncConnection = self  # its `connect` is that of the driver

    # --- the driver ---------------------------------------------------------------------------

    async def connect(self, dsn: str, **_: object) -> ControlConnection:
        server, loop = self._server, asyncio.get_running_loop()
        assert isinstance(loop, SimulatedLoop)
        is_cut = server.is_cut_off(loop.name)
        await asyncio.sleep((CONNECT_US if is_cut else server.delay_us()) / 1_000_000)
        found = server.accept(loop.name, "leases", ControlConnection)
        assert isinstance(found, ControlConnection)
        return found

    def shut_down(self, wire: ControlConnection) -> None:
        wire.shut_down()

    # --- `lease_rows` -------------------------------------------------------------------------

    CHANNEL = "partibus_lanes"

    async def join(self, connection: ControlConnection, address: NodeAddress) -> int:
        return await connection.ask(lambda: self._server.join(address), changes=True)

    async def renew(self, connection: ControlConnection, node: int) -> Renewal:
        return await connection.ask(lambda: self._server.renew(node), changes=True)

    async def look(self, connection: ControlConnection) -> LeaseRows:
        return await connection.ask(self._server.look)

    async def acquire(self, connection: ControlConnection, node: int, lane: int) -> bool:
        return await connection.ask(lambda: self._server.acquire(node, lane), changes=True)

    async def release(self, connection: ControlConnection, node: int, lanes: list[int]) -> None:
        await connection.ask(lambda: self._server.release(node, lanes), changes=True)

    async def remove(self, connection: ControlConnection, node: int) -> bool:
        return await connection.ask(lambda: self._server.remove(node), changes=True)


def _end_wait(heard: "asyncio.Future[bool]", is_lost: bool) -> None:
    if not heard.done():
        heard.set_result(is_lost)
