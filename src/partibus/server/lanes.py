"""The lanes of this process: their brokers, and the fragments that these run.

Owns how the fragments of a catalog entity are started, changed and removed. A lane is one store
with its broker. Here each lane is open from the start to the end of the process; in a cluster lanes
come and go (`server.nodes.moving_lanes`). It must never decide about messages. Made by the node.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from partibus.cluster.peers import Peers
from partibus.control.catalog.catalog import Catalog
from partibus.control.catalog.record import EntityRecord, Placement
from partibus.domain.clock import Clock
from partibus.forwarding.couriers import Couriers
from partibus.fragment.broker import Broker
from partibus.fragment.handle import Fragment, LocalFragment
from partibus.fragment.machine import Machine
from partibus.fragment.spec import FragmentSpec
from partibus.gateway.namespace import Namespace
from partibus.server.fragment_specs import fragment_spec
from partibus.server.topics import Topics

NO_IDLE_TIMES: Final[Mapping[int, int]] = {}


@dataclass(eq=False)
class Lanes:
    """Fragments of this process, and the handles of all others."""

    brokers: dict[int, Broker]
    """The open lanes by their numbers."""
    machines: dict[int, Machine]
    catalog: Catalog
    namespace: Namespace
    couriers: Couriers
    clock: Clock

    def __post_init__(self) -> None:
        self.peers: Peers | None = None
        self.idle_times: Mapping[int, int] = NO_IDLE_TIMES
        """By entity, how long it had been idle when the server last ran."""
        self._topics = Topics(self.catalog)
        self._local: dict[int, LocalFragment] = {}

    def attach(self, peers: Peers) -> None:
        """The other workers can be called from now on."""
        self.peers = peers

    def find(self, fragment_id: int) -> Fragment | None:
        """A fragment that another worker asks for, which may have learnt of a new one earlier."""
        if fragment_id not in self._local:
            self.catalog.refresh()
        return self._local.get(fragment_id)

    def serve(self, record: EntityRecord) -> None:
        """Start the fragments of an entity where they are placed."""
        spec = fragment_spec(record, self.catalog)
        for index, placement in enumerate(record.fragments):
            if placement.store in self.brokers:
                self._here(placement, self._bring_up(record, index, placement, spec))
            else:
                self._elsewhere(placement, index)

    def _bring_up(
        self, record: EntityRecord, index: int, placement: Placement, spec: FragmentSpec
    ) -> LocalFragment:
        broker = self.brokers[placement.store]
        topic = self._topics.topic(record, index)
        machine = broker.add(placement.fragment_id, spec, topic)
        machine.used_ms -= self._idle_ms(record)
        self._topics.join(record, index, machine)
        self.machines[placement.fragment_id] = machine
        fragment = LocalFragment(broker, machine, index)
        self._local[placement.fragment_id] = fragment
        self.couriers.put(fragment, record)
        return fragment

    def _here(self, placement: Placement, fragment: LocalFragment) -> None:
        self.namespace.put_fragment(fragment)

    def _elsewhere(self, placement: Placement, index: int) -> None:
        assert self.peers is not None
        self.namespace.put_fragment(self.peers.fragment(placement, index))

    def _idle_ms(self, record: EntityRecord) -> int:
        """How long an entity had been idle when the server last ran; a later update is use."""
        since_update_ms = max(0, self.clock.now_ms() - record.updated_ms)
        return min(self.idle_times.get(record.entity_id, 0), since_update_ms)

    def changed(self, record: EntityRecord) -> None:
        """A subscription was created or changed: its topic selects by the new rules."""
        self._topics.changed(record)

    def update(self, record: EntityRecord) -> None:
        """Give the fragments of an entity its new properties."""
        spec = fragment_spec(record, self.catalog)
        for placement in record.fragments:
            if placement.store in self.brokers:
                self.brokers[placement.store].change(placement.fragment_id, spec)
        self.couriers.changed(record)

    def drop(self, record: EntityRecord) -> None:
        """An entity was deleted: remove its fragments, with all their messages."""
        self._topics.leave(record)
        for placement in record.fragments:
            self.couriers.drop(placement.fragment_id)
            self.namespace.drop_fragment(placement.fragment_id)
            if placement.store in self.brokers:
                del self.machines[placement.fragment_id]
                del self._local[placement.fragment_id]
                self.brokers[placement.store].drop(placement.fragment_id)
