"""What this process knows of all stores: whether they answer, and how much they store.

Owns the look-up of a store's broker, or of the worker that has it, by number; the numbers of other
workers' stores are as of their last answer to a ping. Used for the placement of new entities and
the refusal of changes. Made by the node.
"""

from collections.abc import Mapping

from partibus.cluster.peers import Peers
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
