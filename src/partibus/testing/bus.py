"""A whole bus in memory, without sockets, threads or real time.

Owns a gateway on memory stores and clients that speak AMQP to it through our own engine, byte for
byte, all driven by hand: a test advances the clock and nothing ever sleeps.
"""

from collections.abc import Sequence

from partibus.amqp.connection import Connection
from partibus.amqp.events import Event
from partibus.amqp.link import Link
from partibus.amqp.session import Session
from partibus.amqp.settings import ConnectionSettings
from partibus.amqp.terminus import encode_source, encode_target
from partibus.control.access.access import AccessControl
from partibus.control.access.policies import ROOT_POLICY_NAME, ensure_root_policy
from partibus.control.catalog.catalog import Catalog
from partibus.control.catalog.record import Change, EntityRecord
from partibus.domain.address import subscription_path
from partibus.domain.entity import QueueSpec, SubscriptionSpec, TopicSpec
from partibus.domain.limits import SELFHOST, Profile
from partibus.forwarding.couriers import Couriers
from partibus.fragment.broker import Broker
from partibus.fragment.handle import LocalFragment
from partibus.gateway.fault_injection import ClientFaults
from partibus.gateway.gateway import Gateway
from partibus.gateway.namespace import Namespace
from partibus.server.clock_watch import ClockWatch
from partibus.server.fragment_specs import fragment_spec
from partibus.server.topics import Topics
from partibus.store.fault_injection import MemoryFaults
from partibus.store.memory import MemoryStore
from partibus.testing.clock import ManualClock
from partibus.testing.local_namespace import LocalNamespace
from partibus.testing.scheduler import ManualScheduler

IDLE_TIMEOUT_MS = 240_000
KEY = "SAS_KEY_VALUE"


class BusBench:
    """A namespace on memory stores."""

    def __init__(
        self, *, stores: int = 1, profile: Profile = SELFHOST, faults: bool = False
    ) -> None:
        self.clock = ManualClock()
        self.scheduler = ManualScheduler(self.clock)
        self.catalog = Catalog(profile=profile, stores=stores, clock=self.clock)
        ensure_root_policy(self.catalog, loopback_only=True)
        self.store_faults = [
            MemoryFaults(self.scheduler.call_soon, self.scheduler.call_later_ms)
            for _ in range(stores)
        ]
        self.stores = [MemoryStore(notify=knobs.notify) for knobs in self.store_faults]
        for knobs, store in zip(self.store_faults, self.stores, strict=True):
            knobs.attach(store)
        self.faults = ClientFaults() if faults else None
        self.brokers = [Broker(store, self.clock, self.scheduler) for store in self.stores]
        for broker in self.brokers:
            broker.open()
        self.namespace = Namespace(self.catalog)
        self.couriers = Couriers(self.namespace, self.scheduler)
        self.access = AccessControl(self.catalog)
        settings = ConnectionSettings(container_id="bus")
        self.gateway = Gateway(
            self.namespace,
            self.access,
            self.clock,
            self.scheduler,
            settings,
            self.faults,
            live=LocalNamespace(self.catalog),
        )
        self.gateway.start()
        ClockWatch(self.clock, self.scheduler, self._clock_stepped).start()
        self._topics = Topics(self.catalog)
        self.catalog.subscribe(self._changed)

    def queue(self, path: str, spec: QueueSpec | None = None) -> list[LocalFragment]:
        """Create a queue and start its fragments."""
        return self._serve(self.catalog.create(path, spec or QueueSpec()))

    def topic(self, path: str, spec: TopicSpec | None = None) -> list[LocalFragment]:
        """Create a topic and start its fragments."""
        return self._serve(self.catalog.create(path, spec or TopicSpec()))

    def subscription(
        self, topic: str, name: str, spec: SubscriptionSpec | None = None
    ) -> list[LocalFragment]:
        """Create a subscription; its topic fills it from now on."""
        path = subscription_path(topic, name)
        return self._serve(self.catalog.create(path, spec or SubscriptionSpec()))

    def _serve(self, record: EntityRecord) -> list[LocalFragment]:
        fragments = []
        spec = fragment_spec(record, self.catalog)
        for index, placement in enumerate(record.fragments):
            broker = self.brokers[placement.store]
            topic = self._topics.topic(record, index)
            machine = broker.add(placement.fragment_id, spec, topic)
            self._topics.join(record, index, machine)
            fragments.append(LocalFragment(broker, machine, index))
            self.namespace.put_fragment(fragments[-1])
            self.couriers.put(fragments[-1], record)
        return fragments

    def _clock_stepped(self, delta_ms: int) -> None:
        for broker in self.brokers:
            broker.clock_stepped(delta_ms)
        self.gateway.clock_stepped()

    def _changed(self, change: Change) -> None:
        """Follow updates and deletions as a node does."""
        self.gateway.follow(change)
        before, after = change.before, change.after
        if after is not None:
            self._topics.changed(after)
        if before is None:
            return
        if after is None:
            self._topics.leave(before)
        for placement in before.fragments:
            broker = self.brokers[placement.store]
            if after is not None:
                broker.change(placement.fragment_id, fragment_spec(after, self.catalog))
            else:
                self.couriers.drop(placement.fragment_id)
                self.namespace.drop_fragment(placement.fragment_id)
                broker.drop(placement.fragment_id)
        if after is not None:
            self.couriers.changed(after)

    def client(
        self,
        *,
        plain: bool = True,
        key: str = KEY,
        policy: str = ROOT_POLICY_NAME,
        idle_timeout_ms: int = IDLE_TIMEOUT_MS,
    ) -> "ClientBench":
        """A client that has opened a connection and begun a session."""
        return ClientBench(self, plain, key, policy, idle_timeout_ms)


class ClientBench:
    """A client of the bench; the peer's `Wire` and our engine in one object."""

    def __init__(
        self, bus: BusBench, plain: bool, key: str, policy: str, idle_timeout_ms: int
    ) -> None:
        self.bus = bus
        self.peer = "bench"
        self.secure = False
        self.is_websocket = False
        self.events: list[Event] = []
        self.is_cut = False
        self.is_reading = True
        self._incoming: list[bytes] = []
        settings = ConnectionSettings(
            container_id="client", hostname="bus", idle_timeout_ms=idle_timeout_ms
        )
        self.engine = Connection(settings, initiator=True, now_ms=bus.clock.monotonic_ms())
        self.connection = bus.gateway.connect(self)
        if plain:
            self.engine.sasl_plain(policy, key)
        else:
            self.engine.sasl_anonymous()
        self.engine.open()
        self.session: Session = self.engine.begin()
        self.run()

    # --- the wire --------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        self._incoming.append(data)

    def close(self) -> None:
        self.is_cut = True

    def linger(self) -> None:
        self.close()

    def abort(self) -> None:
        self.is_cut = True

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    # --- turning -----------------------------------------------------------------------------

    def run(self) -> None:
        """Exchange bytes until nothing is left to do."""
        now_ms = self.bus.clock.monotonic_ms()
        while True:
            data = self.engine.data_to_send()
            if data and not self.is_cut:
                self.connection.data_received(data)
            self.bus.scheduler.run()
            incoming, self._incoming = self._incoming, []
            if not incoming and not data:
                return
            for part in incoming:
                self.events += self.engine.receive_data(part, now_ms)

    def take(self, kind: type[Event]) -> list[Event]:
        """Events of one kind so far, in order; they are then forgotten."""
        taken = [event for event in self.events if type(event) is kind]
        self.events = [event for event in self.events if type(event) is not kind]
        return taken

    def attach(
        self,
        address: str,
        *,
        sends: bool,
        settled: bool = False,
        name: str | None = None,
        filters: dict[str, object] | None = None,
        properties: dict[str, object] | None = None,
    ) -> Link:
        """Open a link and wait for the answer."""
        link = self.session.attach(
            name or f"link-{address}-{sends}",
            is_sender=sends,
            source=encode_source("client" if sends else address, filters),
            target=encode_target(address if sends else "client"),
            snd_settle_mode=1 if settled else 0,
            rcv_settle_mode=0 if settled or sends else 1,
            properties=properties,
        )
        self.run()
        return link

    def send(self, link: Link, payloads: Sequence[bytes], *, settled: bool = False) -> None:
        """Send messages and run everything that follows."""
        for payload in payloads:
            link.send(payload, b"t", settled, 0, None)
        self.run()
