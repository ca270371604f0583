"""Queues of all kinds on the in-memory bus, and a client in a transaction.

Owns the sends and settlements of one transaction by the path of their queue; what became of
them is looked up in the fragments.
"""

from partibus.amqp.delivery import TransactionalState
from partibus.amqp.link import Link
from partibus.domain.entity import QueueSpec
from partibus.domain.partition_key import fragment_index
from partibus.fragment.state import Counts
from partibus.testing.bus import BusBench
from support.gateway.transaction_bench import TransactionClient

PARTITIONED = QueueSpec(enable_partitioning=True, fragments=4)
DETECTING = QueueSpec(enable_partitioning=True, fragments=4, requires_duplicate_detection=True)
TRANSFER_DESTINATION = "com.microsoft:transfer-destination-address"


def key_of_fragment(index: int, besides: str = "") -> str:
    """A key that selects this one of four fragments."""
    keys = (f"k{n}" for n in range(1000))
    return next(key for key in keys if fragment_index(key, 4) == index and key != besides)


class TransactionBus:
    """Queues of all kinds, and a client."""

    def __init__(self, stores: int = 1) -> None:
        self.bus = BusBench(stores=stores)
        self.fragments = {
            "q": self.bus.queue("q"),
            "other": self.bus.queue("other"),
            "parted": self.bus.queue("parted", PARTITIONED),
            "parted-2": self.bus.queue("parted-2", PARTITIONED),
            "unique": self.bus.queue("unique", DETECTING),
            "sessions": self.bus.queue("sessions", QueueSpec(requires_session=True)),
        }
        self.client = TransactionClient(self.bus)
        self.txn_id = self.client.declare()
        self._senders: dict[str, Link] = {}

    def sender(self, path: str) -> Link:
        if path not in self._senders:
            self._senders[path] = self.client.link(path, sends=True)
        return self._senders[path]

    def send(self, path: str, payload: bytes) -> object:
        return self.client.send(self.sender(path), payload, self.txn_id)

    def send_via(self, link: Link, payload: bytes) -> object:
        return self.client.send(link, payload, self.txn_id)

    def via(self, path: str, destination: str) -> Link:
        properties: dict[str, object] = {TRANSFER_DESTINATION: destination}
        return self.client.link(path, sends=True, properties=properties)

    def settle(self, path: str, payload: bytes) -> object:
        """Send a message outside, receive it, and settle it in the transaction."""
        self.client.client.send(self.sender(path), [payload])
        self.client.outcomes()
        receiver = self.client.link(path, sends=False)
        (event,) = self.client.receive(receiver, 1)
        return self.client.settle(receiver, event, self.txn_id)

    def commit(self) -> object:
        return self.client.discharge(self.txn_id)

    def store_of(self, path: str) -> int:
        """The store of an entity's first fragment."""
        return self.bus.catalog.entity(path).fragments[0].store

    def counts(self, path: str) -> Counts:
        """What the one fragment of a queue holds."""
        (fragment,) = self.fragments[path]
        return fragment.machine.state.counts()

    def active(self, path: str) -> list[int]:
        return [f.machine.state.counts().active for f in self.fragments[path]]


def is_taken(state: object) -> bool:
    return isinstance(state, TransactionalState)
