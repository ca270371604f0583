"""Recovery: the records after a snapshot are applied to its state.

Owns the table of which feature replays which kind of record, and what makes a rebuilt state
ready to serve. Records arrive in the order in which they became durable. Nothing here runs
while the fragment serves.
"""

from collections.abc import Iterator
from typing import Final

from partibus.domain.errors import StoreCorrupt
from partibus.fragment.feature import Replay
from partibus.fragment.machine import FEATURES
from partibus.fragment.queue.table import MessageTable
from partibus.fragment.spec import FragmentSpec
from partibus.fragment.state import State
from partibus.store.interface import Store

REPLAYS: Final[dict[int, Replay]] = {}


def _assemble() -> None:
    for feature in FEATURES:
        REPLAYS.update(feature.replays)


_assemble()


def replay(state: State, kind: int, meta: bytes, position: int, length: int) -> None:
    """Apply one record of the log."""
    apply = REPLAYS.get(kind)
    if apply is None:
        raise StoreCorrupt(
            f"a record of kind {kind} is not known to this release; "
            "open the data with the release that wrote it"
        )
    apply(state, kind, meta, position, length)


def settle_numbers(state: State) -> None:
    """Everything was replayed: all assigned numbers are durable."""
    # Snapshots of subscriptions once did not contain the topic's next number.
    state.next_sequence = max(state.next_sequence, state.main.ready.last_sequence + 1)
    state.next_sequence_durable = state.next_sequence
    outbox = state.outbox
    outbox.next_number_durable = outbox.recovered_below = outbox.next_number


def finish(state: State, fragment_id: int, spec: FragmentSpec, store: Store) -> None:
    """Make a rebuilt state ready to serve, and have the store count its bodies as live."""
    state.fragment_id = fragment_id
    state.spec = spec
    settle_numbers(state)
    if spec.requires_session:
        state.require_sessions()
    for table in _stored_tables(state):
        for positions, lengths in table.body_columns():
            store.retain_many(positions, lengths)
            state.size_bytes += sum(lengths)
    for position, length in _loose_bodies(state):
        store.retain(position, length)
        state.size_bytes += length
    if state.retention is not None:
        # Messages kept for cursors do not count against the entity's size.
        for positions, lengths in state.retention.table.body_columns():
            store.retain_many(positions, lengths)


def _stored_tables(state: State) -> Iterator[MessageTable]:
    """Every table whose bodies count for the size of a state, except those of claims and stages."""
    for feature in FEATURES:
        if feature.tables is not None:
            yield from feature.tables(state)


def _loose_bodies(state: State) -> Iterator[tuple[int, int]]:
    """(position, length) of the other bodies that count."""
    for feature in FEATURES:
        if feature.bodies is not None:
            yield from feature.bodies(state)


def stored_bodies(state: State) -> Iterator[tuple[int, int]]:
    """(position, length) of every body that counts for the size of a state."""
    for table in _stored_tables(state):
        yield from table.bodies()
    yield from _loose_bodies(state)
