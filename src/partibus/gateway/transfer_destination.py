"""Where a transaction's message for another entity goes (TXN-4).

Owns the one decision whether a transaction may reach an entity beside its own: today its
message goes straight into the same store entry, so both must be in one store. Asked once a
message by the scope of a transaction; nothing else knows about stores.
"""

from partibus.domain.errors import InvalidOperation
from partibus.domain.partition_key import fragment_index
from partibus.fragment.handle import Fragment
from partibus.gateway.namespace import Entity


def transfer_destination(store: int, entity: Entity, key: str | None, start: int) -> Fragment:
    """The fragment of another entity that takes a message within the transaction's store.

    Without a key it is any of those in the store; `start` is where to begin to look."""
    fragments = entity.fragments
    if len(fragments) > 1 and key is None:
        near = [f for f in fragments if store_of(entity, f) == store]
        if near:
            return near[start % len(near)]
    fragment = fragments[0 if key is None else fragment_index(key, len(fragments))]
    if store_of(entity, fragment) != store:
        raise other_store(store, entity, store_of(entity, fragment))
    return fragment


def other_store(store: int, entity: Entity, its_store: int) -> InvalidOperation:
    """The error for what a transaction cannot reach."""
    return InvalidOperation(
        f"The transaction works in store {store}, and '{entity.record.path}' keeps this "
        f"message in store {its_store}: this version of the server has transactions over "
        "several entities only within one store. Do this outside of the transaction."
    )


def store_of(entity: Entity, fragment: Fragment) -> int:
    """The number of the store that a fragment of an entity lives in."""
    return entity.record.fragments[fragment.index].store
