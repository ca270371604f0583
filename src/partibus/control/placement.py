"""Where the fragments of a new entity go: which store, and which worker writes that store.

Owns both rules, each written here alone. A store is chosen by its load, never by an id: the one
with the least fragments and bytes among those that answer. The fragments of one entity are spread
over the stores first, because a partitioned entity is to outlive the loss of a store (SEED-4).
Pure: what the stores hold and whether they answer is asked of `StoreLoads`.
"""

from collections.abc import Mapping
from typing import Final, Protocol

FRAGMENT_BYTES: Final = 16 * 1024 * 1024
"""This many stored bytes weigh as much as one fragment, which may be filled at any time. Less than
that does not count: a few messages must not decide where all new entities go."""


class StoreLoads(Protocol):
    """What is known of the stores now."""

    def is_available(self, store: int) -> bool:
        """Whether a store answers."""
        ...

    def live_bytes(self, store: int) -> int:
        """The bytes of the messages that a store holds."""
        ...


class UnknownLoads:
    """Nothing is known of the stores: they are not open yet."""

    def is_available(self, store: int) -> bool:
        """Taken for granted."""
        return True

    def live_bytes(self, store: int) -> int:
        """As good as none."""
        return 0


def choose_stores(
    count: int, stores: int, fragments: Mapping[int, int], loads: StoreLoads
) -> list[int]:
    """The stores for `count` fragments of one entity; `fragments` has how many each store holds.

    A store that is down is passed over, unless the entity needs every store: that one is chosen
    all the same, so that creating is refused until the store is back (SEED-60)."""
    candidates = [store for store in range(stores) if loads.is_available(store)]
    if len(candidates) < min(count, stores):
        candidates = list(range(stores))
    weights = {
        store: fragments.get(store, 0) + loads.live_bytes(store) // FRAGMENT_BYTES
        for store in candidates
    }
    own = dict.fromkeys(candidates, 0)
    chosen: list[int] = []
    for _ in range(count):
        store = min(candidates, key=lambda number: (own[number], weights[number], number))
        own[store] += 1
        chosen.append(store)
    return chosen


def worker_of(store: int, workers: int) -> int:
    """The worker that is the one writer of a store."""
    return store % workers
