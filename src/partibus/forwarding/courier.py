"""The courier of one fragment: carries the parcels of its outbox to their destinations.

Owns the delivery of every parcel of one origin: it is collected in the order of the outbox, packed
for its destination and put on the leg to the fragment that its key selects (SEED-56). It decides
when a parcel comes back, and reports to the outbox what was handed over. Runs in the process of its
fragment and has no state that must survive a crash: the outbox and the marks at the destinations
make delivery exactly-once (TXN-17). The node starts couriers through `couriers`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from partibus.domain.address import parse_address, path_key
from partibus.domain.errors import BusError, EntityNotFound, StoreCorrupt
from partibus.domain.scheduler import Scheduler
from partibus.forwarding.leg import Leg, Reply
from partibus.forwarding.outcomes import ParcelOutcome, failure_subqueue, home_subqueue, reason_of
from partibus.forwarding.parcels import Item, ParcelPacker
from partibus.fragment.commands import Command, SubQueueType
from partibus.fragment.handle import Fragment
from partibus.fragment.message import NewMessage
from partibus.fragment.outbox import commands as outbox
from partibus.fragment.outbox.state import Parcel, Purpose
from partibus.fragment.ports import AnswerPort
from partibus.gateway.namespace import Entity, Namespace, require_sendable

COLLECT_MESSAGES_MAX: Final = 500
COLLECT_BYTES_MAX: Final = 1024 * 1024
BUFFER_BYTES_MAX: Final = 4 * 1024 * 1024
"""Parcels a courier keeps in memory before it stops collecting."""
RETRY_MS: Final = 500
"""After a failure of the outbox's own store it is asked again after this time."""


@dataclass(eq=False)
class Courier:
    """Carries the parcels of one fragment."""

    fragment: Fragment
    path: str
    namespace: Namespace
    scheduler: Scheduler
    forward_failures: SubQueueType

    def __post_init__(self) -> None:
        self._packer = ParcelPacker(self.fragment.fragment_id, self.fragment.index, self.path)
        self._routes: dict[Purpose, str] = {}
        """Where the entity currently forwards what."""
        self._legs: dict[int, Leg] = {}
        """By the id of the destination's fragment."""
        self._next_number = 1
        self._is_collecting = False
        self._singly_up_to = 0
        """Parcels up to here are collected one by one: one of them is damaged."""
        self._unrouted = 0
        """Parcels without a destination whose return is not durable yet; none is collected
        meanwhile, since a new destination must not see higher numbers first."""
        self._delivered: list[int] = []
        self._is_reporting = False
        self.buffered_bytes = 0
        self.is_stopped = False

    # --- start and end ----------------------------------------------------------------------

    def start(self, forward_to: str, forward_dead_letters_to: str) -> None:
        """Begin with what is in the outbox."""
        self._set_routes(forward_to, forward_dead_letters_to)
        self.fragment.submit(outbox.ForwardWaiting(False))
        self.collect()

    def follow(self, forward_to: str, forward_dead_letters_to: str) -> None:
        """The entity forwards elsewhere from now on, or no longer, or its destinations changed."""
        before = self._routes[Purpose.DEAD_LETTER]
        self._set_routes(forward_to, forward_dead_letters_to)
        has_changed = path_key(forward_dead_letters_to) != path_key(before)
        self.fragment.submit(outbox.ForwardWaiting(has_changed))
        for leg in list(self._legs.values()):
            leg.go()

    def _set_routes(self, forward_to: str, forward_dead_letters_to: str) -> None:
        self._routes = {Purpose.FORWARD: forward_to, Purpose.DEAD_LETTER: forward_dead_letters_to}

    def stop(self) -> None:
        """Start nothing more; what is in progress ends by itself."""
        self.is_stopped = True

    def later(self, delay_ms: int, callback: Callable[[], None]) -> None:
        """Do something after a while, unless the courier has stopped."""

        def wake() -> None:
            if not self.is_stopped:
                callback()

        self.scheduler.call_later_ms(delay_ms, wake)

    # --- collecting ---------------------------------------------------------------------------

    def collect(self) -> None:
        """Ask for more parcels, unless enough are in progress."""
        if self._is_collecting or self._unrouted or self.is_stopped:
            return
        if self.buffered_bytes > BUFFER_BYTES_MAX:
            return
        self._is_collecting = True
        count = 1 if self._next_number <= self._singly_up_to else COLLECT_MESSAGES_MAX
        self.fragment.submit(outbox.Collect(self, self._next_number, count, COLLECT_BYTES_MAX))

    def collected(self, parcels: Sequence[Parcel], bodies: Sequence[bytes]) -> None:
        """Put parcels on their legs, in order."""
        self._is_collecting = False
        if self.is_stopped:
            return
        self._next_number = parcels[-1].number + 1
        touched: dict[Leg, None] = {}
        unrouted: dict[ParcelOutcome, list[int]] = {}
        for parcel, body in zip(parcels, bodies, strict=True):
            entity = self.entity(parcel.path)
            if entity is None:
                unrouted.setdefault(self._lost(parcel), []).append(parcel.number)
                continue
            item = self.prepare(parcel, body, entity)
            leg = self._leg(self._packer.fragment_for(item, entity), parcel.path)
            leg.put(item, parcel.is_recovered)
            touched[leg] = None
        for outcome, numbers in unrouted.items():
            self._return_unrouted(numbers, outcome)
        for leg in touched:
            leg.go()
        self.collect()

    def unreadable(self, parcels: Sequence[Parcel], error: BusError) -> None:
        """A damaged parcel must not hold up the others: it becomes a dead letter at once."""
        self._is_collecting = False
        if not isinstance(error, StoreCorrupt):
            self.later(RETRY_MS, self.collect)
        elif len(parcels) > 1:
            self._singly_up_to = parcels[-1].number
            self.collect()
        else:
            (parcel,) = parcels
            self._next_number = parcel.number + 1
            subqueue = failure_subqueue(parcel.purpose, self.forward_failures)
            self._return_unrouted([parcel.number], ParcelOutcome(subqueue, reason_of(error)))

    def _leg(self, fragment: Fragment, path: str) -> Leg:
        leg = self._legs.get(fragment.fragment_id)
        if leg is None:
            leg = self._legs[fragment.fragment_id] = Leg(self, fragment, path)
        return leg

    def forget(self, leg: Leg) -> None:
        """Drop the leg of a destination that was deleted, when nothing is left for it."""
        self._legs.pop(leg.fragment.fragment_id, None)

    # --- making ready -------------------------------------------------------------------------

    def entity(self, path: str) -> Entity | None:
        """The destination of that path; None when there is none."""
        try:
            return self.namespace.resolve(parse_address(path))
        except BusError:
            return None

    def prepare(self, parcel: Parcel, body: bytes, entity: Entity | None) -> Item:
        """A parcel as its destination will store it; without one it only waits for its outcome."""
        if entity is None:
            return Item(parcel.number, NewMessage(body, -1), parcel.purpose)
        return self._packer.make_ready(parcel, body, entity)

    # --- verdicts -----------------------------------------------------------------------------

    def outcome(self, item: Item, leg: Leg, entity: Entity | None) -> ParcelOutcome | None:
        """What happens to a parcel that is not handed over; None when nothing is wrong."""
        wanted = self._routes.get(item.purpose, leg.path)
        if path_key(wanted) != path_key(leg.path) or not leg.is_part_of(entity):
            return self._elsewhere(item.purpose, wanted)
        assert entity is not None
        subqueue = failure_subqueue(item.purpose, self.forward_failures)
        if item.refusal is not None:
            return ParcelOutcome(subqueue, item.refusal)
        try:
            require_sendable(entity, parse_address(leg.path))
        except BusError as error:
            return ParcelOutcome(subqueue, reason_of(error))
        return None

    def _elsewhere(self, purpose: Purpose, wanted: str) -> ParcelOutcome:
        return ParcelOutcome(path=wanted) if wanted else ParcelOutcome(home_subqueue(purpose))

    def _lost(self, parcel: Parcel) -> ParcelOutcome:
        """The outcome of a parcel whose destination was deleted, and so has no copy of it."""
        wanted = self._routes.get(parcel.purpose, parcel.path)
        if path_key(wanted) != path_key(parcel.path):
            return self._elsewhere(parcel.purpose, wanted)
        subqueue = failure_subqueue(parcel.purpose, self.forward_failures)
        return ParcelOutcome(subqueue, reason_of(EntityNotFound.named(parcel.path)))

    def decide(self, numbers: list[int], outcome: ParcelOutcome, port: AnswerPort) -> None:
        """Have the outbox carry out an outcome."""
        command: Command
        if outcome.path:
            command = outbox.Redirect(port, numbers, outcome.path)
        else:
            overlay = None if outcome.reason is None else outcome.reason.overlay()
            command = outbox.ReturnParcels(port, numbers, outcome.subqueue, overlay)
        self.fragment.submit(command)

    def _return_unrouted(self, numbers: list[int], outcome: ParcelOutcome) -> None:
        self._unrouted += len(numbers)
        self._decide_unrouted(numbers, outcome)

    def _decide_unrouted(self, numbers: list[int], outcome: ParcelOutcome) -> None:
        """Return parcels without a destination; after a failure of the outbox's store, again."""

        def returned(_count: int) -> None:
            self._unrouted -= len(numbers)
            self.collect()

        again = partial(self._decide_unrouted, numbers, outcome)
        self.decide(numbers, outcome, Reply(returned, partial(self.later, RETRY_MS, again)))

    # --- handed over --------------------------------------------------------------------------

    def delivered(self, numbers: list[int]) -> None:
        """Parcels are durable at their destination: the outbox may drop them."""
        self._delivered += numbers
        self._report_delivered()
        self.collect()

    def _report_delivered(self) -> None:
        if self._delivered and not self._is_reporting:
            self._is_reporting = True
            numbers, self._delivered = self._delivered, []
            port = Reply(lambda _: self._reported([]), partial(self._reported, numbers))
            self.fragment.submit(outbox.Forwarded(port, numbers))

    def _reported(self, unreported: list[int]) -> None:
        """The outbox has dropped parcels; after a failure the report is repeated."""
        self._is_reporting = False
        self._delivered += unreported
        if unreported:
            self.later(RETRY_MS, self._report_delivered)
        else:
            self._report_delivered()

    def refetch(self, leg: Leg, numbers: list[int]) -> None:
        """Read parcels again whose bodies a leg has dropped."""
        self.fragment.submit(outbox.Fetch(leg, numbers))
