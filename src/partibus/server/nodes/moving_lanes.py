"""The lanes of a node of a cluster: opened and closed while it runs.

Owns the handles of all fragments, which follow their lanes, and the order in which a lane is
started and stopped here. A lane is served when all its fragments are up; one that leaves is no
longer served before its broker ends, so that no command is accepted that could not be answered.
`lane_keeping` decides when. Made by the node.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from partibus.cluster.lane_table import LaneTable
from partibus.cluster.moving import MovingFragment
from partibus.cluster.peers import Peers
from partibus.cluster.remote import FarBroker, RemoteFragment, nobody
from partibus.control.catalog.record import EntityRecord, Placement
from partibus.domain.errors import BusError
from partibus.domain.scheduler import Scheduler
from partibus.fragment.broker import Broker
from partibus.fragment.handle import Fragment, LocalFragment
from partibus.server.fragment_specs import fragment_spec
from partibus.server.lanes import Lanes
from partibus.store.interface import StoreState

_log: Final = logging.getLogger(__name__)


@dataclass(eq=False)
class MovingLanes(Lanes):
    """Lanes that move between nodes."""

    table: LaneTable
    scheduler: Scheduler
    number: int
    """Of this node."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._nobody = nobody(self.scheduler)
        self.epochs: dict[int, int] = {}
        """Of the lanes that are served here."""
        self._handles: dict[int, dict[int, MovingFragment]] = {}
        """By lane and fragment."""

    def find(self, fragment_id: int) -> Fragment | None:
        """A fragment that another node asks for; one that is not served here refuses all
        commands."""
        try:
            found = super().find(fragment_id)
        except BusError as error:  # the catalog cannot be read now
            _log.warning("fragment %d is not known here: %s", fragment_id, error.text)
            found = None
        if found is not None:
            return found
        for lane, handles in self._handles.items():
            if fragment_id in handles:
                return self._absent(lane, handles[fragment_id])
        return None

    def epoch_of(self, lane: int) -> int | None:
        """The epoch under which a lane is served here; None when it is not."""
        return self.epochs.get(lane)

    def state_elsewhere(self, lane: int) -> StoreState | None:
        """The state of a lane of another node, as that node has reported it; None when no node
        serves it."""
        far = self._far(lane)
        return None if far is None else StoreState.DOWN if far.is_down(lane) else StoreState.UP

    def _far(self, lane: int) -> FarBroker | None:
        """The node that serves a lane, unless it is this one."""
        server = self.table.server_of(lane)
        return None if server is None or self.peers is None else self.peers.far(server)

    # --- handles --------------------------------------------------------------------------

    def _here(self, placement: Placement, fragment: LocalFragment) -> None:
        self._handle(placement, fragment.index)
        if placement.store in self.epochs:  # a new entity of a lane that is served
            self._bind(placement.store, placement.fragment_id)

    def _elsewhere(self, placement: Placement, index: int) -> None:
        self._handle(placement, index)
        self._bind(placement.store, placement.fragment_id)

    def _handle(self, placement: Placement, index: int) -> MovingFragment:
        handles = self._handles.setdefault(placement.store, {})
        handle = handles.get(placement.fragment_id)
        if handle is None:
            absent = RemoteFragment(self._nobody, placement.fragment_id, index, placement.store)
            handle = MovingFragment(placement.fragment_id, index, absent)
            handles[placement.fragment_id] = handle
            self.namespace.put_fragment(handle)
        return handle

    def _absent(self, lane: int, handle: MovingFragment) -> RemoteFragment:
        return RemoteFragment(self._nobody, handle.fragment_id, handle.index, lane)

    def moved(self, lane: int) -> None:
        """A lane is served by another node than before, or by none."""
        for fragment_id in list(self._handles.get(lane, ())):
            self._bind(lane, fragment_id)

    def _bind(self, lane: int, fragment_id: int) -> None:
        handle = self._handles[lane][fragment_id]
        if lane in self.epochs:
            handle.bind(self._local[fragment_id], is_served=True)
            return
        far = self._far(lane)
        if far is None:
            handle.bind(self._absent(lane, handle), is_served=False)
        else:
            there = RemoteFragment(far, fragment_id, handle.index, lane)
            handle.bind(there, is_served=True)

    def drop(self, record: EntityRecord) -> None:
        super().drop(record)
        for placement in record.fragments:
            self._handles.get(placement.store, {}).pop(placement.fragment_id, None)

    # --- lanes ----------------------------------------------------------------------------

    def take_up(self, lane: int, broker: Broker) -> None:
        """Start every fragment of a lane that was recovered; it is not served yet."""
        self.brokers[lane] = broker
        for record, index, placement in self._of(lane):
            spec = fragment_spec(record, self.catalog)
            self._here(placement, self._bring_up(record, index, placement, spec))

    def begin(self, lane: int, epoch: int) -> None:
        """Serve a lane whose fragments are up."""
        self.epochs[lane] = epoch
        self._report()
        self.moved(lane)

    def end(self, lane: int) -> Broker | None:
        """Stop serving a lane; returns its broker, which accepts nothing new from now on."""
        was_served = self.epochs.pop(lane, None) is not None
        broker = self.brokers.get(lane)
        if was_served:
            self.moved(lane)
            fragments = self._handles.get(lane, {}).keys()
            if self.peers is not None:
                self.peers.let_go(fragments)
        for record, index, placement in self._of(lane):
            self.couriers.drop(placement.fragment_id)
            self._topics.part(record, index)
            self.machines.pop(placement.fragment_id, None)
            self._local.pop(placement.fragment_id, None)
        self.brokers.pop(lane, None)
        if was_served:
            self._report()
        return broker

    def _of(self, lane: int) -> Iterator[tuple[EntityRecord, int, Placement]]:
        """The fragments of a lane; those of a topic before those of its subscriptions."""
        for record in self.catalog.entities():
            for index, placement in enumerate(record.fragments):
                if placement.store == lane:
                    yield record, index, placement

    def _report(self) -> None:
        self.table.reported(self.number, self.epochs)
        if self.peers is not None:
            self.peers.serve_lanes(self.epochs)

    def attach(self, peers: Peers) -> None:
        """The other nodes can be called from now on."""
        self.peers = peers
        peers.lanes = self.table
        self.table.on_moved = self.moved
