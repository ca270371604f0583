"""The place of a node in its cluster: what it has in addition to a single server.

Owns the order in which a node joins and leaves. It has its catalog before it joins, a number before
it connects to the others, and connects to them before it opens a lane; it leaves when its lanes are
handed over. Carries no messages. Made by the lifecycle for `serve --cluster`, used by the node.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final, Protocol

from partibus.cluster.node_group import NodeGroup
from partibus.cluster.peers import Peers
from partibus.control.catalog.catalog import Catalog
from partibus.control.ownership import Ownership
from partibus.domain.errors import StoreUnavailable
from partibus.fragment.broker import Broker
from partibus.server.data_directory.belonging import Belonging, begin_stores
from partibus.server.nodes.lane_keeping import LaneKeeping
from partibus.server.nodes.moving_lanes import MovingLanes
from partibus.server.nodes.reach import Reach
from partibus.store.interface import Store

if TYPE_CHECKING:
    from partibus.control.postgres.operations import ClusterOperations, ClusterStatus
    from partibus.server.nodes.lane_notes import LaneNotes

OPENING_S_MAX: Final = 30.0
"""How long a starting node waits for its lanes before it admits clients."""

_log: Final = logging.getLogger(__name__)


class Feed(Protocol):
    """Reports the generation of the shared catalog, without blocking."""

    generation: int

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


class ClusterMember:
    """One node as a member of its cluster."""

    def __init__(
        self,
        ownership: Ownership,
        group: NodeGroup,
        open_catalog: Callable[[], Catalog],
        begin: Callable[[], Awaitable[None]],
    ) -> None:
        self.reach: Reach | None = None
        """Where some nodes may reach a database that others cannot."""
        self._begin = begin
        """Starts the ownership."""
        self.ownership = ownership
        self.group = group
        self.open_catalog = open_catalog
        """Opens it for callers that query the database directly, such as the writer."""
        self._open_followed: Callable[[], Catalog]
        self._feed: Feed
        self._catalog: Catalog | None = None
        self.on_evicted: Callable[[], None] | None = None
        """Called once when an operator has removed this node from the cluster."""
        self.notes: LaneNotes | None = None
        """Knows how far each lane had come; None where that is not recorded."""
        self.keeping: LaneKeeping | None = None
        """None until lanes are opened, like the lanes."""
        self.lanes: MovingLanes | None = None
        self.operations: ClusterOperations | None = None
        """Operators' requests to the cluster, on a connection of their own."""
        self.known_status: Callable[[], ClusterStatus]
        """The tables as they were last read, for when they cannot be read now."""

    def follow_by(self, feed: Feed, open_followed: Callable[[], Catalog]) -> None:
        """Use a feed that reports news, and a catalog that reads it."""
        self._feed = feed
        self._open_followed = open_followed

    def follow_catalog(self) -> Catalog:
        """The catalog of the loop, which queries the database only when there is news."""
        self._catalog = self._open_followed()
        return self._catalog

    def heard(self, generation: int) -> None:
        """A change with this generation is durable; the feed may not know of it yet."""
        self._feed.generation = max(self._feed.generation, generation)

    def refresh(self) -> None:
        """Read the changes of other nodes."""
        if self._catalog is not None:
            try:
                self._catalog.refresh()
            except StoreUnavailable as error:
                _log.warning("the catalog cannot be followed now: %s", error.text)

    async def join(self, catalog: Catalog) -> int:
        """Take a number; returns it."""
        namespace = catalog.identity.namespace()
        assert namespace is not None
        await self._feed.start()
        await self._begin()
        self.group.group_id = namespace.hex()
        self.group.worker = self.ownership.node
        # Already here: a node whose lease lapses while this one starts is not waited for.
        self.ownership.on_change = self._changed
        _log.info("joined the cluster as node %d", self.ownership.node)
        return self.ownership.node

    async def begin(
        self,
        lanes: MovingLanes,
        peers: Peers,
        belonging: Belonging,
        make: Callable[[int], Broker],
        keeps_locks: bool,
    ) -> None:
        """Open the lanes that are wanted here; returns when they are served, or after a while."""

        async def prepare(lane: int, broker: Broker) -> int:
            lanes.catalog.refresh()
            belonging.check_store(lane, broker)
            epoch = epoch_of(broker.store)
            # A lock of another epoch is never valid, except those kept by a clean hand-over.
            broker.first_token = epoch << 32 | 1
            broker.on_removed = lanes.catalog.dropped
            lanes.take_up(lane, broker)
            await begin_stores(lanes.catalog, {lane: broker})
            belonging.drop_deleted(lane, broker)
            peers.watch(lanes.brokers, self._look)
            return epoch

        self.lanes = lanes
        notes = self.notes
        admit = None if notes is None else notes.admit
        self.keeping = LaneKeeping(
            self.ownership, lanes, make, prepare, keeps_locks, admit, self.reach
        )
        if notes is not None:
            notes.start(lanes.brokers)
        self._changed()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(OPENING_S_MAX):
                await self.keeping.settled.wait()

    def decides(self) -> bool:
        """Whether this node does what only one may do: it serves the first lane."""
        return self.lanes is not None and self.lanes.epoch_of(0) is not None

    @property
    def epochs(self) -> Mapping[int, int]:
        """The lanes that are served here, with the epoch of each."""
        return {} if self.lanes is None else self.lanes.epochs

    async def leave(self) -> None:
        """Hand the lanes over, and leave the cluster."""
        if self.notes is not None:
            await self.notes.stop()
        if self.keeping is not None:
            await self.keeping.stop()
        await self.ownership.stop()
        await self._feed.stop()
        if self.operations is not None:
            await self.operations.close()

    def _look(self) -> None:
        if self.keeping is not None:
            self.keeping.look()

    def _changed(self) -> None:
        self.group.changed()
        self._look()
        if getattr(self.ownership, "evicted", False) and self.on_evicted is not None:
            _log.error("this node was evicted from the cluster, and stops")
            evicted, self.on_evicted = self.on_evicted, None
            evicted()


def epoch_of(store: Store) -> int:
    """The epoch of this writer of the lane."""
    epoch = getattr(store, "epoch", None)
    assert isinstance(epoch, int), "a lane of a cluster is in a store with epochs"
    return epoch
