"""Where the nodes meet the world: the replacements for driver, statements and TLS.

Owns the names that are replaced in the product's modules while a cluster is simulated, in addition
to those replaced in every world.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from partibus.cluster import node_group
from partibus.cluster.channel import PeerChannel
from partibus.cluster.transport import PeerListener
from partibus.control.postgres import ownership, session
from partibus.simulation.cluster.lane import (
    LaneServer,
    SimulatedLane,
    SimulatedPipeline,
    SimulatedWakeup,
    connect_shared,
)
from partibus.simulation.cluster.leases import ControlPlane, ControlServer
from partibus.simulation.event_loop import SimulatedLoop
from partibus.simulation.net import PEERS
from partibus.simulation.threads import Threads
from partibus.store.postgres import appending, lane, sharing, store

BUSY_BYTES: Final = 512
"""Simulated messages are small, so few bytes count as many."""


def store_stand_ins(servers: dict[str, LaneServer], threads: Threads) -> list[tuple[Any, str, Any]]:
    """For a store in a simulated database."""
    return [
        (store, "Lane", partial(SimulatedLane, servers)),
        (lane, "migrate", _nothing),
        (appending, "StatementPipeline", SimulatedPipeline),
        (appending, "Wakeup", SimulatedWakeup),
        (appending, "time", threads),
        (sharing, "StatementPipeline", SimulatedPipeline),
        (sharing, "connect", partial(connect_shared, servers)),
        (sharing, "threading", threads),
        (sharing, "time", threads),
        (sharing, "BUSY_BYTES", BUSY_BYTES),
    ]


def node_stand_ins(control: ControlServer) -> list[tuple[Any, str, Any]]:
    """For a node, in addition to those of its stores."""
    plane = ControlPlane(control)
    return [
        (session, "psycopg", plane),
        (session, "shut_down", plane.shut_down),
        (ownership, "lease_rows", plane),
        (ownership, "prepare", _nothing),
        (node_group, "TlsTransport", PeerWire),
        (node_group, "named_node", _anybody),
    ]


class PeerWire:
    """Connections to the other nodes; replaces `TlsTransport`."""

    def __init__(
        self, directory: Path, host: str, port: int, find: Callable[[int], tuple[str, int] | None]
    ) -> None:
        self._host = host
        self.port = port
        self._find = find

    async def listen(
        self, loop: asyncio.AbstractEventLoop, make: Callable[[], PeerChannel]
    ) -> PeerListener:
        assert isinstance(loop, SimulatedLoop)
        return loop.net.listen(loop, make, f"{PEERS}{self._host}:{self.port}")

    async def connect(
        self, loop: asyncio.AbstractEventLoop, number: int, channel: PeerChannel
    ) -> None:
        assert isinstance(loop, SimulatedLoop)
        address = self._find(number)
        if address is None:
            raise ConnectionError(f"node {number} has no address")
        host, port = address
        await loop.net.connect(loop, lambda: channel, f"{PEERS}{host}:{port}")

    def close(self) -> None:
        """Nothing to close."""


def _nothing(*_: object) -> None:
    """There is no schema."""


def _anybody(certificate: object) -> str:
    """Foreign nodes are not simulated."""
    return "node"
