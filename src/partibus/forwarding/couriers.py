"""The couriers of this process: one for each fragment that lives here.

Owns their beginning and their end, and notifies them when an entity forwards elsewhere or a
destination has changed. Every fragment has a courier, since transfers may enter any outbox; one
that has nothing to carry waits for its outbox and costs nothing. The node calls it.
"""

from dataclasses import dataclass, field

from partibus.control.catalog.record import EntityRecord
from partibus.domain.entity import TopicSpec
from partibus.domain.scheduler import Scheduler
from partibus.forwarding.courier import Courier
from partibus.fragment.commands import SubQueueType
from partibus.fragment.handle import Fragment
from partibus.gateway.namespace import Namespace


@dataclass(eq=False)
class Couriers:
    """Couriers by the id of the fragment that they serve."""

    namespace: Namespace
    scheduler: Scheduler
    forward_failures: SubQueueType = SubQueueType.DEAD_LETTER
    """Where messages that cannot be forwarded go (TDQ-3)."""
    _couriers: dict[int, Courier] = field(init=False, default_factory=dict)

    def put(self, fragment: Fragment, record: EntityRecord) -> None:
        """A fragment is served here from now on."""
        courier = Courier(
            fragment, record.path, self.namespace, self.scheduler, self.forward_failures
        )
        self._couriers[fragment.fragment_id] = courier
        courier.start(*routes_of(record))

    def drop(self, fragment_id: int) -> None:
        """A fragment is no longer served here."""
        courier = self._couriers.pop(fragment_id, None)
        if courier is not None:
            courier.stop()

    def changed(self, record: EntityRecord) -> None:
        """The properties of an entity have changed."""
        for placement in record.fragments:
            courier = self._couriers.get(placement.fragment_id)
            if courier is not None:
                courier.follow(*routes_of(record))

    def stop(self) -> None:
        """Start nothing more, so that the brokers come to rest."""
        for courier in self._couriers.values():
            courier.stop()


def routes_of(record: EntityRecord) -> tuple[str, str]:
    """Where an entity forwards its messages, and its dead letters."""
    spec = record.spec
    if isinstance(spec, TopicSpec):
        return "", ""
    return spec.forward_to, spec.forward_dead_lettered_messages_to
