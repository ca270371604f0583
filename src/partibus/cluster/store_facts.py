"""How a store is, in the few numbers that every worker knows of every store.

Owns their order, which travels between workers with each answer to a ping (`cluster.rows`).
Called by the peers, which tell them, and by what is known of all stores (`store_loads`).
"""

from typing import Final

from partibus.cluster.rows import StoreFacts
from partibus.fragment.broker import Broker

LIVE_BYTES: Final = 1
DAMAGED: Final = 2
IS_SHORT: Final = 3


def facts_of(number: int, broker: Broker) -> StoreFacts:
    """The facts of a store of this process."""
    store = broker.store
    return number, store.live_bytes, broker.damage.count, int(store.shortage is not None)
