"""What is known in this process of all stores: whether they answer, and how much they hold.

Owns the way from a store's number to the broker here or to the worker that has it; what other
workers' stores hold is as of their last answer to a ping. The placement of new entities, the
refusal of changes and the health of the server go by it. Made by the node.
"""

from collections.abc import Mapping

from partibus.cluster.peers import Peers
from partibus.cluster.rows import StoreFacts
from partibus.cluster.store_facts import DAMAGED, IS_SHORT, facts_of
from partibus.fragment.broker import Broker
from partibus.store.interface import StoreState


class ServerLoads:
    """The `StoreLoads` of a server; `brokers` are those of this process, by their store."""

    def __init__(self, brokers: Mapping[int, Broker]) -> None:
        self._brokers = brokers
        self.peers: Peers | None = None
        """The other workers, which have all the other stores."""

    def is_available(self, store: int) -> bool:
        """Whether a store answers, whichever worker has it."""
        broker = self._brokers.get(store)
        if broker is not None:
            return broker.store.state is not StoreState.DOWN
        return self.peers is not None and self.peers.is_available(store)

    def live_bytes(self, store: int) -> int:
        """The bytes of its messages, whichever worker has it."""
        broker = self._brokers.get(store)
        if broker is not None:
            return broker.store.live_bytes
        return 0 if self.peers is None else self.peers.live_bytes(store)

    def damaged(self, stores: int) -> int:
        """How many damaged messages were found in `stores` stores, of all workers."""
        return sum(self._facts(store)[DAMAGED] for store in range(stores))

    def short(self, stores: int) -> list[int]:
        """The stores, of this many, whose disks are almost full."""
        return [store for store in range(stores) if self._facts(store)[IS_SHORT]]

    def down(self, stores: int) -> list[int]:
        """The stores, of this many, that do not answer."""
        return [store for store in range(stores) if self._is_down(store)]

    def _is_down(self, store: int) -> bool:
        broker = self._brokers.get(store)
        if broker is not None:
            return broker.store.state is StoreState.DOWN
        return self.peers is not None and self.peers.is_down(store)

    def _facts(self, store: int) -> StoreFacts:
        broker = self._brokers.get(store)
        if broker is not None:
            return facts_of(store, broker)
        return (store, 0, 0, 0) if self.peers is None else self.peers.facts(store)
