"""A node of a simulated cluster: leases, lanes, peers, gateway, wired as the node wires them.

Owns the life of one node: it joins under a new number each time it starts, serves the lanes that
its leases give it, and dies, pauses or leaves at any moment. The wiring mirrors `server.node` with
a `ClusterMember`; all nodes share one catalog in memory, with fixed entities.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from partibus.cluster.control_hub import ControlHub
from partibus.cluster.node_group import NodeGroup
from partibus.cluster.peers import Peers
from partibus.control.ownership import LEASE_MS, NodeAddress
from partibus.control.postgres.ownership import PostgresOwnership
from partibus.domain.errors import BusError
from partibus.forwarding.couriers import Couriers
from partibus.fragment.broker import Broker
from partibus.fragment.commands import Command
from partibus.gateway.namespace import Namespace
from partibus.server.config import ServeSettings
from partibus.server.data_directory.belonging import Belonging
from partibus.server.nodes.member import ClusterMember
from partibus.server.nodes.moving_lanes import MovingLanes
from partibus.server.scheduler import LoopScheduler, until
from partibus.simulation.cluster.lane import LaneServer
from partibus.simulation.cluster.lane_tables import LaneContent
from partibus.simulation.cluster.leases import ControlServer
from partibus.simulation.net import PEERS
from partibus.simulation.process import Host, Room, ServerProcess
from partibus.store.postgres.sharing import SharedAppends
from partibus.store.postgres.store import PostgresStore

ANSWER_S_MAX = 10.0


@dataclass(eq=False)
class Cluster(Host):
    """What the nodes share: databases, catalog, wires."""

    def __post_init__(self) -> None:
        world, threads, plan = self.world, self.threads, self.plan
        self.control = ControlServer(world, threads, "database-0")
        self.databases: list[LaneServer] = [self.control]
        for number in range(1, plan.databases):
            self.databases.append(LaneServer(world, threads, f"database-{number}"))
        self.control.add_lanes(plan.stores, plan.databases)
        for database in self.databases:
            database.commit_us = plan.commit_us
            database.on_taken = self._lane_was_taken
        self.servers = {f"postgresql://{each.name}/bus": each for each in self.databases}
        places = list(self.servers)
        self.places = tuple(places[lane % len(places)] for lane in range(plan.stores))
        self.settings = ServeSettings(
            data=Path("/simulated"),
            cluster=places[0],
            stores=plan.stores,
            lanes=plan.stores,
            store_places=self.places,
        )

    def _lane_was_taken(self) -> None:
        """The previous owner of a lane may serve it until its lease is over."""
        self.net.peers_break(self.world.now_us + LEASE_MS * 1000)

    def content(self, lane: int) -> LaneContent:
        """The tables of a lane."""
        return self.servers[self.places[lane]].lane(lane)


class UnchangingFeed:
    """The feed of a catalog that never changes."""

    def __init__(self, generation: int) -> None:
        self.generation = generation

    async def start(self) -> None:
        """Nothing to follow."""

    async def stop(self) -> None:
        """Nothing was followed."""


class SimulatedNode(ServerProcess):
    """One node."""

    def __init__(self, cluster: Cluster, number: int) -> None:
        super().__init__(cluster, "node", number)
        self._cluster = cluster
        self.is_serving = False
        """Whether it has joined and admits clients."""
        self.on_gone: Callable[[SimulatedNode], None] = _nobody
        """Called when it ended by itself: it could not join, or was evicted."""
        self.lanes: MovingLanes
        self._shared: dict[str, SharedAppends] = {}
        self._peers: Peers
        self._member: ClusterMember
        self._ownership: PostgresOwnership
        self.is_stopping = False

    @property
    def rooms(self) -> Mapping[int, Room]:
        """The lanes that it has open."""
        return {lane: self._cluster.content(lane) for lane in self.brokers}

    @property
    def cluster_number(self) -> int:
        """Its number among the nodes, since this start; 0 while it has none."""
        return self._ownership.node if self.is_up else 0

    # --- life ---------------------------------------------------------------------------------

    def start(self) -> BusError | None:
        """Start to join; errors show later."""
        self._begin_life()
        self.loop.start_thread = self._start_thread
        self.is_serving = self.is_stopping = False
        self.loop.run(self._begin)
        return None

    def _start_thread(self, target: Callable[[], None]) -> None:
        self._cluster.threads.Thread(target=target, name="executor", daemon=True).start()

    def _begin(self) -> None:
        address = NodeAddress(self.name, self._lives)
        dsn = next(iter(self._cluster.servers))
        group = NodeGroup(Path("/simulated"), self.name, self._lives)
        ownership = self._ownership = PostgresOwnership(dsn, address, self.clock)
        group.nodes = lambda: {n: (a.host, a.port) for n, a in ownership.nodes().items()}
        catalog = self._cluster.catalog
        self._member = ClusterMember(ownership, group, lambda: catalog, ownership.start)
        self._member.follow_by(UnchangingFeed(catalog.generation), lambda: catalog)
        self._member.follow_catalog()
        self._member.on_evicted = self._evicted
        self.loop.create_task(self._live())

    async def _live(self) -> None:
        try:
            await self._join()
        except BusError as error:
            self._world.note(self.name, f"cannot join: {error.text}")
            self._leave_soon()

    async def _join(self) -> None:
        catalog, scheduler = self._cluster.catalog, LoopScheduler(self.loop)
        namespace = Namespace(catalog)
        self._couriers = Couriers(namespace, scheduler)
        number = await self._member.join(catalog)
        self._world.note(self.name, f"joins as node {number}")
        group = self._member.group
        self.lanes = MovingLanes(
            self.brokers,
            self.machines,
            catalog,
            namespace,
            self._couriers,
            self.clock,
            group.lanes,
            scheduler,
            number,
        )
        hub = ControlHub(number)
        self._peers = Peers(group, self.loop, scheduler, self.lanes.find, hub)
        self._peers.watch(self.brokers)
        self.lanes.attach(self._peers)
        for record in catalog.entities():
            self.lanes.serve(record)
        self._open_gateway(namespace, scheduler, catalog.lock_prefix)
        await self._peers.start()
        belonging = Belonging(Path("the catalog"), self._cluster.settings, catalog)
        make = partial(self._make_broker, scheduler)
        await self._member.begin(self.lanes, self._peers, belonging, make, True)
        if not self.is_stopping:
            self._listen()
            self.is_serving = True

    def _make_broker(self, scheduler: LoopScheduler, lane: int) -> Broker:
        store = PostgresStore(
            self._cluster.places[lane],
            lane,
            notify=scheduler.call_from_thread,
            owner=self.name,
            takes_over=False,
            shared=self._appends(scheduler, self._cluster.places[lane]),
            segment_bytes=self._cluster.plan.segment_bytes,
            recent_bytes=self._cluster.plan.recent_bytes,
        )
        return Broker(store, self.clock, scheduler, self.loop.broker_failed, 0)

    def _appends(self, scheduler: LoopScheduler, place: str) -> SharedAppends | None:
        """What the lanes of this life share; every other node has each lane commit alone."""
        if not self.number % 2:
            return None
        if place not in self._shared:
            self._shared[place] = SharedAppends(place, self.name, scheduler.call_from_thread)
        return self._shared[place]

    # --- the end ------------------------------------------------------------------------------

    @property
    def _peer_address(self) -> str:
        return f"{PEERS}{self.name}:{self._lives}"

    def die(self, *, is_silent: bool) -> None:
        if not self.is_up:
            return
        self.is_serving = False
        super().die(is_silent=is_silent)
        for database in self._cluster.databases:
            database.process_died(self.name, is_silent)
        self._shared, self._gateway = {}, None

    def _evicted(self) -> None:
        self._world.note(self.name, "was evicted")
        self.stop()

    def _leave_soon(self) -> None:
        self._world.after(0, self._leave)

    def _leave(self) -> None:
        if self.is_up:
            self.die(is_silent=False)
            self.on_gone(self)

    def stop(self) -> None:
        """Stop cleanly: answer, hand the lanes over, leave."""
        if not self.is_up or self.is_stopping:
            return
        self.is_stopping = True
        if not self.is_serving:
            self._leave_soon()  # it has accepted nothing yet
            return
        self._cluster.net.close(self.name)
        self.loop.run(self._begin_to_stop)

    def _begin_to_stop(self) -> None:
        self._watch.stop()
        assert self._gateway is not None
        self._gateway.quiesce()
        self._couriers.stop()
        self.loop.create_task(self._stop())

    async def _stop(self) -> None:
        await until(self._has_answered, ANSWER_S_MAX)
        assert self._gateway is not None
        # Clients are notified later than the lanes of other nodes, which give their sessions away.
        self._cluster.net.take_leave(self.loop)
        self._gateway.close()
        await self._member.leave()
        await self._peers.close()
        self._world.note(self.name, "has left")
        self._leave_soon()

    def _has_answered(self) -> bool:
        return self._is_at_rest() and self._peers.is_at_rest

    # --- what the run asks for ----------------------------------------------------------------

    def submit(self, fragment_id: int, command: Command) -> None:
        found = self.lanes.find(fragment_id)
        assert found is not None
        self.loop.call_soon(found.submit, command)

    def checkpoint(self) -> None:
        for lane in self.brokers:
            self.loop.call_soon(self._checkpoint, lane)

    def _checkpoint(self, lane: int) -> None:
        if lane in self.brokers:
            self.brokers[lane]._upkeep.checkpoint()


def _nobody(node: SimulatedNode) -> None:
    """Ignores the notification."""
