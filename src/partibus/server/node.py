"""One node: catalog, stores, brokers, fragments and gateway, wired together.

Owns the order in which they start and stop. It must never open a port, which is the service's work,
or decide about messages.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from partibus import __version__
from partibus.amqp.settings import ConnectionSettings
from partibus.cluster.control_hub import ControlHub
from partibus.cluster.membership import Membership
from partibus.cluster.peers import Peers
from partibus.control.access.access import AccessControl
from partibus.control.access.jwt_tokens import JwtVerifier
from partibus.control.catalog.catalog import Catalog
from partibus.control.catalog.record import Change
from partibus.control.catalog.sealed import SealedCatalog
from partibus.control.declared.definitions import Definitions
from partibus.control.live import LiveNamespace
from partibus.domain.clock import Clock, SystemClock
from partibus.domain.errors import BusError, StoreCorrupt
from partibus.forwarding.couriers import Couriers
from partibus.fragment.broker import Broker
from partibus.fragment.commands import SubQueueType
from partibus.fragment.machine import Machine
from partibus.fragment.upkeep.recovering import no_progress
from partibus.gateway.fault_injection import ClientFaults
from partibus.gateway.gateway import Gateway
from partibus.gateway.memory.account import MemoryAccount
from partibus.gateway.namespace import Namespace
from partibus.server.bulk import BulkPath
from partibus.server.clock_watch import ClockWatch
from partibus.server.config import ServeSettings
from partibus.server.data_directory.belonging import Belonging, begin_stores, refuse_lost_catalog
from partibus.server.data_directory.catalog_start import (
    catalog_file,
    connection_string,
    declare_in_turn,
    open_catalog,
)
from partibus.server.data_directory.catalog_writer import CatalogWriter
from partibus.server.data_directory.directory import COPY_NAME
from partibus.server.data_directory.encryption import data_key_of, encrypted_catalog
from partibus.server.data_directory.seen import SeenNotes
from partibus.server.failure import stop_at_once
from partibus.server.fault_injection.active_faults import ActiveFaults
from partibus.server.follower import Follower
from partibus.server.health import HealthService, OwnHealth
from partibus.server.idle import IdleWatch
from partibus.server.lanes import Lanes
from partibus.server.live import ServerNamespace
from partibus.server.memory import give_memory_back, memory_limit_bytes
from partibus.server.nodes.cluster_view import ClusterView
from partibus.server.nodes.member import ClusterMember
from partibus.server.nodes.moving_lanes import MovingLanes
from partibus.server.operators.administration import Administration
from partibus.server.operators.backups import BackupService
from partibus.server.operators.services import register_services
from partibus.server.scheduler import LoopScheduler, until
from partibus.server.setting_values import MERGED
from partibus.server.store_error_texts import texts_for_clients
from partibus.server.store_loads import ServerLoads
from partibus.server.stores import StoreMaker, new_first_token
from partibus.server.testing.clock import ClockService
from partibus.server.testing.fake_time import BusTime
from partibus.server.testing.namespaces import HostedNamespaces
from partibus.server.testing.testing_mode import reset

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

    from partibus.atom.application import ManagementApplication

ANSWER_S_MAX: Final = 10.0
"""How long clients of a stopping node wait for the answers to their requests."""
FLUSH_S_MAX: Final = 30.0
"""A store that does not answer within this time is closed as it is."""

_log: Final = logging.getLogger(__name__)


@dataclass(eq=False)
class Node:
    """Everything behind the ports."""

    settings: ServeSettings
    clock: Clock
    """The machine's clock: of connections and tokens, whatever the time of messages is."""
    definitions: Definitions | None = None
    membership: Membership | None = None
    """None when this process is the whole server."""
    gate: Callable[[], Awaitable[None]] | None = None
    """Awaited by a worker that has checked its stores, until all others have too."""
    progress: Callable[[], None] = no_progress
    """Called at every step of the start, which may take long."""
    is_guest: bool = False
    """Whether its namespace is an additional one of a test server."""
    member: ClusterMember | None = None
    """Its place in a cluster; None when the server is alone."""

    def __post_init__(self) -> None:
        self.hosted: HostedNamespaces | None = None
        self._time: BusTime
        self._peers: Peers | None = None
        self._brokers: dict[int, Broker] = {}
        """The brokers of this process by the number of their store."""
        self._loads = ServerLoads(self._brokers)
        self._machines: dict[int, Machine] = {}
        self.control = ControlHub(0 if self.membership is None else self.membership.worker)
        """Where operators' questions are asked and answered."""
        self._follower: Follower
        self._clock_watch: ClockWatch
        self._idle: IdleWatch
        self.administration: Administration
        self.health = HealthService(self.control, self.settings.stores, self.member is not None)
        self.bulk: BulkPath
        self._faults: ActiveFaults | None = None
        self._couriers: Couriers
        self.gateway: Gateway
        self._lanes: Lanes
        self._moving: MovingLanes
        self.live: LiveNamespace
        self.catalog: Catalog
        self._writer: CatalogWriter
        self._shows_key = False
        """Whether this start prints the root key; with several workers the supervisor does."""
        self._encrypted: SealedCatalog | None = None
        """None when the catalog is not encrypted."""
        self._at_end = contextlib.ExitStack()
        self._belonging: Belonging | None = None
        """None when everything is in memory."""
        self._seen: SeenNotes | None = None

    # --- start and end ------------------------------------------------------------------

    async def start(self) -> None:
        """Open the catalog and the stores, and start every fragment."""
        loop = asyncio.get_running_loop()
        scheduler = LoopScheduler(loop)
        self._time = BusTime(self.clock, scheduler, loop if self.settings.fake_time else None)
        data_key = data_key_of(self.settings, makes=self.membership is None)
        stores = StoreMaker(self.settings, scheduler.call_from_thread, scheduler, data_key)
        with contextlib.ExitStack() as undo:
            undo.callback(self._at_end.close)
            self._encrypted = encrypted_catalog(
                data_key, self._catalog_path(), self.settings, self.membership, self._at_end
            )
            await self._open(stores, scheduler, undo)
            undo.pop_all()
        self.live = ServerNamespace(self.catalog, self.control, self._loads, self._writer)
        namespace = Namespace(self.catalog)
        to_transfer = self.settings.forward_failures_to_transfer
        failures = SubQueueType.TRANSFER_DEAD_LETTER if to_transfer else SubQueueType.DEAD_LETTER
        self._couriers = Couriers(namespace, scheduler, failures)
        self._lanes = await self._make_lanes(namespace, scheduler)
        self._lanes.idle_times = self.catalog.idle_times()
        group = self.membership if self.member is None else self.member.group
        if group is not None:
            self._peers = Peers(group, loop, scheduler, self._lanes.find, self.control)
            self._peers.watch(self._brokers)
            self._loads.peers = self._peers
            self._lanes.attach(self._peers)
        # A topic comes before its subscriptions: it is older.
        for record in self.catalog.entities():
            self._lanes.serve(record)
            self.progress()
        for number, broker in self._brokers.items():
            if self._belonging is not None:
                self._belonging.drop_deleted(number, broker)
        self.catalog.subscribe(self._changed)
        self.gateway = Gateway(
            namespace,
            self._access_control(),
            self.clock,
            scheduler,
            ConnectionSettings(
                container_id="partibus",
                properties={"product": "partibus", "version": __version__},
            ),
            ClientFaults() if self.settings.faults else None,
            lock_prefix=self.catalog.lock_prefix,
            live=self.live,
            merges_peeks=self.settings.peek_partitioned == MERGED,
            memory=MemoryAccount(memory_limit_bytes(self.settings)),
            give_back=lambda: give_memory_back(loop),
        )
        self.gateway.start()
        self._follower = Follower(self.catalog, scheduler)
        self._follower.on_change = None if self.member is None else self.member.heard
        self._follower.start(self.control)
        clock = self._time.clock
        decides = None if self.member is None else self.member.decides
        self._idle = IdleWatch(
            self.catalog, self.live, self.control, clock, self._machines, decides
        )
        self._idle.start()
        self._clock_watch = ClockWatch(self.clock, scheduler, self._clock_stepped)
        self._clock_watch.start()
        self._open_administration(stores, scheduler)
        if self.settings.testing and not self.is_guest:
            self.hosted = self.administration.namespaces = HostedNamespaces(self)
        if self._peers is not None:
            await self._peers.start()
            # Catalog changes made while other workers could not notify this one.
            self.catalog.refresh()
        if self.member is not None:
            await self._open_lanes(self.member, stores)

    async def stop(self) -> None:
        """Answer pending requests, notify the clients, make everything durable, and close.

        A message that is stored but not confirmed would be sent again: so first nothing more is
        accepted, then all answers are awaited, and only then connections are closed.
        """
        if self.hosted is not None:
            await self.hosted.stop()
        if self._faults is not None:
            self._faults.clear({})
        self._follower.stop()
        self._clock_watch.stop()
        self._idle.stop()
        await self.bulk.stop()
        self.administration.backups.stop()
        self.gateway.quiesce()
        self._couriers.stop()
        await until(self._has_answered, ANSWER_S_MAX)
        self.gateway.close()
        if self.member is not None:
            await self.member.leave()
        elif self._peers is not None:
            self._peers.say_quiet()
            await until(self._peers.others_are_quiet, ANSWER_S_MAX)
            self._peers.stop_serving()
        await until(self._is_at_rest, FLUSH_S_MAX)
        if self._peers is not None:
            await self._peers.close()
        for broker in self._brokers.values():
            broker.close(self.settings.keep_locks)
        self._writer.close()
        self._time.stop()
        if self._seen is not None:
            self._seen.stop()
        self._keep_copy()
        self.catalog.close()
        self._at_end.close()

    def _is_at_rest(self) -> bool:
        """Whether nothing waits for a store of this process."""
        return all(broker.is_at_rest for broker in self._brokers.values())

    def _has_answered(self) -> bool:
        """Whether no request made here waits for a store or for another worker."""
        return self._is_at_rest() and (self._peers is None or self._peers.is_at_rest)

    def data_routes(self) -> "Sequence[BaseRoute]":
        """The HTTP routes by which messages are sent and received; loaded when first needed."""
        from partibus.rest.plane import DataPlane
        from partibus.rest.routes import data_routes

        return data_routes(DataPlane(self.gateway))

    def connection_string(self, host: str, port: int) -> str:
        """The connection string for clients of this node."""
        data = self.settings.data if self.member is None else None
        return connection_string(self.catalog, data, self._shows_key, host, port)

    def guest(self) -> "Node":
        """A node for an additional namespace, with the entities that the file declares in it."""
        return Node(self.settings, SystemClock(), self.definitions, is_guest=True)

    def management(self) -> "ManagementApplication":
        """The management API; its library is loaded with the first HTTP request."""
        from partibus.atom.application import ManagementApplication

        access, counts = self.gateway.access, self.administration
        return ManagementApplication(self.catalog, self.live, access, counts, self.clock)

    # --- parts ----------------------------------------------------------------------------

    async def _open(
        self, stores: StoreMaker, scheduler: LoopScheduler, undo: contextlib.ExitStack
    ) -> None:
        """Open catalog and stores, and change them only if they belong together."""
        self._open_catalog(undo)
        first_token = new_first_token()
        for number in filter(self._owns, range(self.settings.stores)):
            broker = self._make_broker(stores, first_token, number)
            undo.callback(broker.abandon)
            self._open_broker(number, broker)
        if self.gate is not None:
            await self.gate()
            self.catalog.refresh()
        else:
            wanted = self.definitions
            self._shows_key = await declare_in_turn(self.catalog, self.settings, wanted)
        if self._belonging is not None and self.member is None:
            await begin_stores(self.catalog, self._brokers)
            self._keep_copy()
            self._follow_stores(scheduler)

    def _follow_stores(self, scheduler: LoopScheduler) -> None:
        """Record how far the stores have come, so that older copies put back are recognised."""
        namespace = self.catalog.identity.namespace()
        assert namespace is not None
        self._seen = SeenNotes(
            self.settings.data,
            namespace,
            self._brokers,
            lambda: self.catalog.generation,
            scheduler,
        )
        self._seen.start()

    def _keep_copy(self) -> None:
        """One process keeps the copy of the catalog, which only a repair needs."""
        if self.settings.memory or self.control.worker != 0 or self.member is not None:
            return
        try:
            self.catalog.keep_copy(self.settings.data / COPY_NAME)
        except BusError as error:
            _log.warning("the catalog could not be copied: %s", error.text)

    def _open_catalog(self, undo: contextlib.ExitStack) -> None:
        settings, membership = self.settings, self.membership
        file = self._catalog_path()
        if self.member is not None:
            self.catalog = self.member.follow_catalog()
            undo.callback(self.catalog.close)
            self._writer = CatalogWriter(self.catalog, self.member.open_catalog)
            self._writer.on_written = self.member.heard
            self._belonging = Belonging(Path("the catalog"), settings, self.catalog)
            return
        if file is not None and not settings.memory and membership is None:
            refuse_lost_catalog(file, settings)
        opened = partial(open_catalog, file, settings, self._time.clock, self._encrypted)
        self.catalog = opened()
        undo.callback(self.catalog.close)
        self._writer = CatalogWriter(self.catalog, None if file is None else opened)
        if file is not None and not settings.memory:
            self._belonging = Belonging(file, settings, self.catalog)
            self._belonging.check_places()

    def _catalog_path(self) -> Path | None:
        """Where the catalog is; None when it is kept in memory."""
        membership = self.membership
        return catalog_file(self.settings) if membership is None else membership.catalog

    async def _make_lanes(self, namespace: Namespace, scheduler: LoopScheduler) -> Lanes:
        args = (self._brokers, self._machines, self.catalog, namespace, self._couriers)
        clock = self._time.clock
        if self.member is None:
            return Lanes(*args, clock)
        number = self.control.worker = await self.member.join(self.catalog)
        lanes = MovingLanes(*args, clock, self.member.group.lanes, scheduler, number)
        self._moving = lanes
        self.health.state_elsewhere = lanes.state_elsewhere
        return lanes

    async def _open_lanes(self, member: ClusterMember, stores: StoreMaker) -> None:
        """Serve the lanes that this node should have."""
        assert self._peers is not None and self._belonging is not None
        make = partial(self._make_broker, stores, 0)
        keeps_locks = self.settings.keep_locks
        await member.begin(self._moving, self._peers, self._belonging, make, keeps_locks)

    def _make_broker(self, stores: StoreMaker, first_token: int, number: int) -> Broker:
        time = self._time
        broker = Broker(stores.make(number), time.clock, time.timers, stop_at_once, first_token)
        if not self.settings.memory:
            is_lane = number in self.settings.store_databases
            directory = self.settings.store_directories[number]
            name = self.settings.store_name(number) if is_lane else directory
            broker.hide_place = texts_for_clients(number, name)
        return broker

    def _open_broker(self, number: int, broker: Broker) -> None:
        try:
            broker.open(self.progress)
        except StoreCorrupt as error:
            if error.place:
                raise
            # Records that contradict each other; the error does not say in which store.
            place = self.settings.store_name(number)
            raise StoreCorrupt.at(place, None, f"{error.text}.") from error
        self._brokers[number] = broker
        broker.on_removed = self.catalog.dropped
        if self._belonging is not None:
            self._belonging.check_store(number, broker)

    def _owns(self, store: int) -> bool:
        """Whether this process is the single writer of a store."""
        if self.member is not None:
            return False  # lanes come and go
        return self.membership is None or self.membership.owns(store)

    def _access_control(self) -> AccessControl:
        jwt = self.settings.jwt
        return AccessControl(self.catalog, None if jwt is None else JwtVerifier(jwt))

    def _open_administration(self, stores: StoreMaker, scheduler: LoopScheduler) -> None:
        """Let operators inspect this process, and inject faults where that was enabled."""
        gateway = self.gateway
        register_services(gateway, self._brokers, self._machines, self.catalog, self.control)
        OwnHealth(self._brokers, self.catalog).register(self.control)
        self.bulk = BulkPath(self.settings, gateway, self.clock, self.control)
        if self.member is not None:
            self.bulk.owner_of = self.member.group.owner_of
        self.administration = Administration(
            self.settings,
            self.catalog,
            self.clock,
            self.control,
            self.bulk,
            BackupService(
                self.settings,
                self._catalog_path(),
                self._brokers,
                self.control,
                self.clock,
                scheduler,
                self._encrypted,
            ),
            gateway,
            self.live,
            self._time.clock,
        )
        if self.member is not None:
            view = ClusterView(self.member, self.settings, self.catalog, self.control, gateway)
            self.administration.cluster = view
            self.administration.signals.cluster = view.metrics
            self.administration.signals.decides = self.member.decides
        gateway.at_close(self.administration.events.stop)
        gateway.at_close(self.administration.live_feed.close)
        if self._time.fake is not None:
            # A step of zero makes every fragment check what is due.
            look = partial(self._clock_stepped, 0)
            at_rest, fake = self._has_answered, self._time.fake
            self.administration.clock = ClockService(fake, at_rest, self._idle, look)
        if self.settings.testing:
            self.administration.reset = partial(reset, self.catalog, self.live, self.definitions)
        if gateway.faults is not None:
            if not self.settings.testing:
                _log.warning("fault injection is enabled: use this server for tests only")
            clock, timers = self._time.clock, self._time.timers
            self._faults = ActiveFaults(stores.faults, gateway, gateway.faults, clock, timers)
            self._faults.register(self.control)

    def _clock_stepped(self, delta_ms: int) -> None:
        """The clock was set: intervals keep their length, and times of day are checked again."""
        for broker in self._brokers.values():
            broker.clock_stepped(delta_ms)
        self.gateway.clock_stepped()

    def _changed(self, change: Change) -> None:
        """Follow the catalog's change feed; links are notified before their fragments are
        removed."""
        before, after = change.before, change.after
        for broker in self._brokers.values():
            broker.marks.follow(self.catalog.generation)
        if self._seen is not None:
            self._seen.note()
        if before is None and after is not None:
            self._lanes.serve(after)
        if after is not None:
            self._lanes.changed(after)
        self.gateway.follow(change)
        if before is None:
            return
        if after is not None:
            self._lanes.update(after)
        else:
            self._lanes.drop(before)
