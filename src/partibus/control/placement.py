"""Where the fragments of a new entity go: which store, and which worker writes that store.

Owns both rules, which are written only here. A store is chosen by its load, never by an id: the one
with the fewest fragments and bytes among those that answer. The fragments of one entity are spread
over the stores first, because a partitioned entity must survive the loss of a store (SEED-4). Pure:
`StoreLoads` provides the loads and whether stores answer.
"""

from collections.abc import Mapping
from typing import Final, Protocol

FRAGMENT_BYTES: Final = 16 * 1024 * 1024
"""This many stored bytes count as much as one fragment, which may be filled at any time. Less does
not count: a few messages must not decide where all new entities go."""


class StoreLoads(Protocol):
    """What is known of the stores now."""

    def is_available(self, store: int) -> bool:
        """Whether a store answers."""
        ...

    def live_bytes(self, store: int) -> int:
        """The bytes of the messages in a store."""
        ...


class UnknownLoads:
    """Nothing is known of the stores: they are not open yet."""

    def is_available(self, store: int) -> bool:
        """Assumed."""
        return True

    def live_bytes(self, store: int) -> int:
        """Assumed to be none."""
        return 0


def choose_stores(
    count: int, stores: int, fragments: Mapping[int, int], loads: StoreLoads
) -> list[int]:
    """The stores for `count` fragments of one entity; `fragments` has the count of each store.

    A store that is down is skipped, unless the entity needs every store: then it is chosen all the
    same, so that the creation is refused until the store is back (SEED-60).
    """
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
    """The worker that is the single writer of a store."""
    return store % workers
