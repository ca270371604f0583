"""A server process: brokers, gateway, couriers and peers, wired as the node wires them.

Owns what workers and nodes have in common, and the life of one worker: its start from whatever is
on its disks, its death at any moment, and its clean stop. The wiring mirrors `server.node`;
catalog, HTTP and TLS are not simulated, so the entities of a run are fixed when it begins.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from partibus.amqp.settings import ConnectionSettings
from partibus.cluster.control_hub import ControlHub
from partibus.cluster.membership import Membership
from partibus.cluster.peers import Peers
from partibus.control.access.access import AccessControl
from partibus.control.catalog.catalog import Catalog
from partibus.control.catalog.record import EntityRecord
from partibus.domain.errors import BusError, StoreCorrupt
from partibus.forwarding.couriers import Couriers
from partibus.fragment.broker import Broker
from partibus.fragment.commands import Command
from partibus.fragment.handle import LocalFragment
from partibus.fragment.machine import Machine
from partibus.gateway.gateway import Gateway
from partibus.gateway.memory.account import MemoryAccount
from partibus.gateway.namespace import Namespace
from partibus.listener.deadlines import Deadlines
from partibus.listener.tcp import AmqpProtocol
from partibus.server.clock_watch import ClockWatch
from partibus.server.fragment_specs import fragment_spec
from partibus.server.scheduler import LoopScheduler, until
from partibus.server.topics import Topics
from partibus.simulation.clock import SimulatedClock
from partibus.simulation.disk import SimulatedDisk
from partibus.simulation.event_loop import SimulatedLoop, make_loop
from partibus.simulation.net import Net
from partibus.simulation.plan import Plan
from partibus.simulation.threads import Threads
from partibus.simulation.world import Crashed, World
from partibus.store.files.log import SegmentStore
from partibus.store.files.room import FreeMin

IDLE_TIMEOUT_MS = 60_000
CLOSING_MS = 5_000
DOWN = "is down"
STARTS = "starts"
RUN = 0x51AB1E
"""The bits that the workers of one server share."""


class Room(Protocol):
    """Where a log uses space."""

    @property
    def name(self) -> str:
        """In reports."""
        ...

    @property
    def used_bytes(self) -> int:
        """How much."""
        ...


@dataclass(eq=False)
class Host:
    """What processes run on, and what outlives them."""

    world: World
    net: Net
    threads: Threads
    catalog: Catalog
    plan: Plan


class ServerProcess:
    """A process of the bus: a worker of one server, or a node of a cluster."""

    def __init__(self, host: Host, kind: str, number: int) -> None:
        self._host = host
        self._world = host.world
        self.number = number
        self.name = f"{kind}-{number}"
        self.clock = SimulatedClock(host.world)
        self.is_up = False
        self.brokers: dict[int, Broker] = {}
        """By store or lane."""
        self.machines: dict[int, Machine] = {}
        """By fragment."""
        self.memory = MemoryAccount()
        """The memory used for its clients."""
        self.loop: SimulatedLoop
        self._lives = 0
        self._gateway: Gateway | None = None
        self._couriers: Couriers
        self._watch: ClockWatch

    @property
    def segment_bytes(self) -> int:
        """The size of its segments."""
        return self._host.plan.segment_bytes

    @property
    def connection_count(self) -> int:
        """Clients that are connected."""
        return 0 if self._gateway is None else len(self._gateway._connections)

    @property
    def rooms(self) -> Mapping[int, Room]:
        """Where the logs are that it writes, by store or lane."""
        raise NotImplementedError

    @property
    def _peer_address(self) -> str:
        """Where the other processes reach it, in this life."""
        raise NotImplementedError

    # --- life ---------------------------------------------------------------------------------

    def start(self) -> BusError | None:
        """Start; returns the error of a store that cannot be opened, or None."""
        raise NotImplementedError

    def _begin_life(self) -> None:
        assert not self.is_up
        self._lives += 1
        self.loop = make_loop(self._world, self._host.net, self.name)
        self.brokers, self.machines = {}, {}
        self.memory = MemoryAccount(self._host.plan.memory_bytes)
        self.is_up = True

    def _open_gateway(
        self, namespace: Namespace, scheduler: LoopScheduler, lock_prefix: int
    ) -> None:
        settings = ConnectionSettings(container_id="bus", idle_timeout_ms=IDLE_TIMEOUT_MS)
        self._gateway = Gateway(
            namespace,
            AccessControl(self._host.catalog),
            self.clock,
            scheduler,
            settings,
            lock_prefix=lock_prefix,
            memory=self.memory,
        )
        self._gateway.start()
        self._watch = ClockWatch(self.clock, scheduler, self._clock_stepped)
        self._watch.start()

    def _listen(self) -> None:
        """Accept clients."""
        assert self._gateway is not None
        closing = Deadlines(self.loop, self.clock, CLOSING_MS)
        accept = partial(AmqpProtocol, self._gateway.connect, closing, _forget)
        self._host.net.listen(self.loop, accept, self.name)

    def _clock_stepped(self, delta_ms: int) -> None:
        for broker in self.brokers.values():
            broker.clock_stepped(delta_ms)
        if self._gateway is not None:
            self._gateway.clock_stepped()

    def _is_at_rest(self) -> bool:
        return all(broker.is_at_rest for broker in self.brokers.values())

    def die(self, *, is_silent: bool) -> None:
        """End at this very moment; with `is_silent` no connection is notified."""
        self.is_up = False
        self._world.note(self.name, DOWN)
        self._host.net.close(self.name)
        self._host.net.close(self._peer_address)
        self.loop.die()
        self._host.threads.kill(self.name)
        self._host.net.process_died(self.loop, is_silent)
        self._world.graveyard += [self.loop, self.brokers, self.machines, self._gateway]
        self.brokers, self.machines = {}, {}

    def stop(self) -> None:
        """Stop cleanly."""
        raise NotImplementedError

    # --- what the run asks for ----------------------------------------------------------------

    def submit(self, fragment_id: int, command: Command) -> None:
        """Submit to a fragment of this process, as its bulk path does."""
        raise NotImplementedError

    def checkpoint(self) -> None:
        """Have every store write a checkpoint and free dead space."""
        raise NotImplementedError


class SimulatedProcess(ServerProcess):
    """One worker of the server."""

    def __init__(self, host: Host, disks: dict[int, SimulatedDisk], number: int) -> None:
        super().__init__(host, "worker", number)
        self._disks = disks
        """Of all stores of the server."""
        self._workers = host.plan.workers

    @property
    def rooms(self) -> Mapping[int, SimulatedDisk]:
        """The disks of its stores, by their numbers."""
        return {n: disk for n, disk in self._disks.items() if self._membership.owns(n)}

    @property
    def disks(self) -> list[SimulatedDisk]:
        """The disks of its stores."""
        return list(self.rooms.values())

    @property
    def _membership(self) -> Membership:
        nowhere = Path("/simulated")
        return Membership(
            worker=self.number,
            workers=self._workers,
            group_id=RUN,
            runtime=nowhere,
            catalog=nowhere,
            tls=nowhere,
        )

    @property
    def has_crashed(self) -> bool:
        """Whether one of its disks saw it die."""
        return self.is_up and any(disk.is_dead for disk in self.disks)

    # --- life ---------------------------------------------------------------------------------

    def start(self) -> BusError | None:
        """Recover and serve; returns the error of a store that cannot be opened, or None."""
        self._begin_life()
        for disk in self.disks:
            disk.restart()
        self._host.threads.host = self.name
        try:
            self._open()
        except Crashed:
            self.die(is_silent=False)
        except StoreCorrupt as error:
            self.die(is_silent=False)
            return error
        except BusError:
            self.die(is_silent=False)
        return None

    def _open(self) -> None:
        scheduler = LoopScheduler(self.loop)
        first_token = self._lives << 32 | 1
        for number, disk in self._disks.items():
            if self._membership.owns(number):
                store = SegmentStore(
                    Path(f"/simulated/store-{number}"),
                    notify=scheduler.call_from_thread,
                    segment_bytes=self.segment_bytes,
                    disk=disk,
                    free_min=FreeMin(share=0.02, least_bytes=1 << 20),
                )
                broker = Broker(store, self.clock, scheduler, self.loop.broker_failed, first_token)
                broker.open()
                self.brokers[number] = broker
        self.loop.run(self._wire, scheduler)

    def _wire(self, scheduler: LoopScheduler) -> None:
        catalog = self._host.catalog
        namespace = Namespace(catalog)
        self._couriers = Couriers(namespace, scheduler)
        peers: Peers | None = None
        if self._workers > 1:
            hub = ControlHub(self.number)
            peers = Peers(self._membership, self.loop, scheduler, self._find, hub)
            peers.watch(self.brokers)
        topics = Topics(catalog)
        self._local: dict[int, LocalFragment] = {}
        for record in catalog.entities():
            self._serve(record, namespace, topics, peers)
        self._open_gateway(namespace, scheduler, RUN)
        self.loop.create_task(self._begin_to_listen(peers))

    def _serve(
        self, record: EntityRecord, namespace: Namespace, topics: Topics, peers: Peers | None
    ) -> None:
        spec = fragment_spec(record, self._host.catalog)
        for index, placement in enumerate(record.fragments):
            if not self._membership.owns(placement.store):
                assert peers is not None
                namespace.put_fragment(peers.fragment(placement, index))
                continue
            broker = self.brokers[placement.store]
            topic = topics.topic(record, index)
            machine = broker.add(placement.fragment_id, spec, topic)
            topics.join(record, index, machine)
            self.machines[placement.fragment_id] = machine
            fragment = LocalFragment(broker, machine, index)
            self._local[placement.fragment_id] = fragment
            namespace.put_fragment(fragment)
            self._couriers.put(fragment, record)

    async def _begin_to_listen(self, peers: Peers | None) -> None:
        if peers is not None:
            await peers.start()
        self._listen()

    def _find(self, fragment_id: int) -> LocalFragment | None:
        return self._local.get(fragment_id)

    @property
    def _peer_address(self) -> str:
        return str(self._membership.socket_path(self.number))

    def die(self, *, is_silent: bool, loses_power: bool = False) -> None:
        if not self.is_up:
            return
        for disk in self.disks:
            disk.is_dead = True
        super().die(is_silent=is_silent)
        if loses_power:
            for disk in self.disks:
                disk.power_loss()

    def stop(self) -> None:
        """Stop cleanly, like a server that is asked to: by then nothing is pending."""
        if not self.is_up:
            return
        self._host.net.close(self.name)
        self._couriers.stop()
        self._watch.stop()
        assert self._gateway is not None
        self.loop.run(self._gateway.quiesce)
        self.loop.run(self._gateway.close)
        self.loop.create_task(self._close_when_at_rest())

    async def _close_when_at_rest(self) -> None:
        await until(self._is_at_rest, 30.0)
        try:
            for broker in self.brokers.values():
                broker.close()
        except Crashed:  # a task keeps to itself what it raises
            self._world.after(0, self._world.on_crash, self.name)
            return
        self._world.note(self.name, "has stopped")
        self._world.after(0, partial(self.die, is_silent=False))

    def submit(self, fragment_id: int, command: Command) -> None:
        self.loop.run(self._local[fragment_id].submit, command)

    def checkpoint(self) -> None:
        for broker in self.brokers.values():
            self.loop.run(broker._upkeep.checkpoint)


def _forget(protocol: AmqpProtocol) -> None:
    """A connection is gone; they are not counted here."""
