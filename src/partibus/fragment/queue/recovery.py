"""Recovery of the queue itself: its records, its sections of a snapshot, its tables.

Owns what each record of an arrival, a settlement or a schedule means for a state that is not
served yet, and how duplicate detection and the locks of a clean stop are kept in snapshots.
Called by `replay` and `snapshot` through the feature.
"""

from functools import partial

from partibus.domain.errors import StoreCorrupt
from partibus.fragment.cursors.retention import keep_replayed
from partibus.fragment.message import Held, MessageState
from partibus.fragment.paging import NewPages, encode_words
from partibus.fragment.queue.history import Part, Shard
from partibus.fragment.queue.kept_locks import dump_locks
from partibus.fragment.queue.table import WAS_SCHEDULED, MessageTable
from partibus.fragment.records import (
    ACTIVATED_META,
    DEFERRED_COUNTED,
    ENQUEUED_DUE,
    ENQUEUED_META,
    RETURNED,
    SCHEDULED_META,
    unpack_overlay,
    unpack_sequences,
)
from partibus.fragment.state import State
from partibus.fragment.table_snapshot import TableReader

# --- records -------------------------------------------------------------------------------------


def replay_enqueued(state: State, kind: int, meta: bytes, position: int, length: int) -> None:
    """A message arrived."""
    sequence, enqueued_ms, expires_ms = ENQUEUED_META.unpack(meta)
    extra = WAS_SCHEDULED if kind == ENQUEUED_DUE else 0
    push_next(state.main.ready, sequence, position, length, enqueued_ms, expires_ms, extra)
    state.next_sequence = sequence + 1


def replay_removed(state: State, kind: int, meta: bytes, position: int, length: int) -> None:
    """Messages are gone; cursors may still need them."""
    sequences = unpack_sequences(meta)
    for sequence in sequences:
        held, table = take(state, sequence)
        if table is not state.scheduled:
            keep_replayed(state, held)
    if state.sessions is not None:
        state.sessions.forget(sequences)


def replay_scheduled(state: State, kind: int, meta: bytes, position: int, length: int) -> None:
    """A message waits for its time."""
    sequence, enqueued_ms, due_ms, ttl = SCHEDULED_META.unpack(meta)
    push_next(state.scheduled, sequence, position, length, enqueued_ms, due_ms, ttl)
    state.next_sequence = sequence + 1


def replay_returned(state: State, kind: int, meta: bytes, position: int, length: int) -> None:
    """Messages wait again."""
    overlay, offset = unpack_overlay(meta, 0)
    for sequence in unpack_sequences(meta, offset):
        held, table = take(state, sequence)
        held.delivery_count += kind == RETURNED
        held.lay_over(overlay)
        table.insert(held)


def replay_dead_lettered(state: State, kind: int, meta: bytes, position: int, length: int) -> None:
    """Messages were dead-lettered."""
    overlay, offset = unpack_overlay(meta, 1)
    for sequence in unpack_sequences(meta, offset):
        held, _ = take(state, sequence)
        held.delivery_count += meta[0]
        held.state = MessageState.ACTIVE
        held.lay_over(overlay)
        state.dead.ready.insert(held)
        if state.sessions is not None:
            state.sessions.forget([sequence])


def replay_deferred(state: State, kind: int, meta: bytes, position: int, length: int) -> None:
    """Messages wait to be received by number."""
    overlay, offset = unpack_overlay(meta, 0)
    for sequence in unpack_sequences(meta, offset):
        held, table = take(state, sequence)
        held.delivery_count += kind == DEFERRED_COUNTED
        held.state = MessageState.DEFERRED
        held.lay_over(overlay)
        for subqueue in state.subqueues:
            if table is subqueue.ready or table is subqueue.deferred:
                subqueue.deferred.insert(held)


def replay_activated(state: State, kind: int, meta: bytes, position: int, length: int) -> None:
    """Scheduled messages became active, under new numbers."""
    activated_ms, sequence = ACTIVATED_META.unpack_from(meta, 0)
    words = unpack_sequences(meta, ACTIVATED_META.size)
    for index in range(0, len(words), 2):
        held = state.scheduled.take(words[index])
        if held is None:
            raise StoreCorrupt(f"message {words[index]} was activated but never scheduled")
        if state.sessions is not None:
            state.sessions.renumber(held.sequence, sequence)
        expires_ms = words[index + 1]
        ready, at, size = state.main.ready, held.position, held.length
        push_next(ready, sequence, at, size, activated_ms, expires_ms, WAS_SCHEDULED)
        sequence += 1
    state.next_sequence = sequence


def push_next(
    table: MessageTable,
    sequence: int,
    position: int,
    length: int,
    enqueued_ms: int,
    expires_ms: int,
    extra: int,
) -> None:
    """Add a message at the tail; an error if another fragment has written under the same id."""
    if sequence <= table.last_sequence:
        raise StoreCorrupt(
            f"message {sequence} comes after message {table.last_sequence}: two fragments have "
            "written under one id"
        )
    table.push(sequence, position, length, enqueued_ms, expires_ms, extra)


def take(state: State, sequence: int) -> tuple[Held, MessageTable]:
    """Take a message out of the table it is in; the likely tables are searched first."""
    for subqueue in state.subqueues:
        for table in (subqueue.ready, subqueue.deferred):
            held = table.take(sequence)
            if held is not None:
                return held, table
    held = state.scheduled.take(sequence)
    if held is None:
        raise StoreCorrupt(f"a record names message {sequence}, which does not exist")
    return held, state.scheduled


# --- snapshots and bodies ------------------------------------------------------------------------


def dump_identities(state: State, pages: NewPages | None) -> list[Part] | None:
    """The message ids that duplicate detection remembers."""
    if not state.history.count:
        return None
    if pages is None:
        return state.history.dump()

    def page_of(shard: Shard) -> int:
        pages.spent += 1
        return (
            pages.mention(shard.page)
            if shard.page
            else pages.add(partial(encode_words, shard.words))
        )

    return state.history.dump(page_of)


def load_identities(state: State, data: bytes, tables: TableReader) -> None:
    """What `dump_identities` wrote."""
    state.history.load(data, tables.page)


def dump_kept_locks(state: State, pages: NewPages | None) -> list[Part] | None:
    """The locks of a clean stop; those of the previous stop if the fragment has not served
    since."""
    if state.kept_locks:
        return [state.kept_locks]
    return [dump_locks(state)] if state.lock_count else None


def load_kept_locks(state: State, data: bytes, tables: TableReader) -> None:
    """The broker restores them when it knows that nothing was recorded afterwards."""
    state.kept_locks = data


def tables(state: State) -> list[MessageTable]:
    """Every table of the queue and its dead letters."""
    found = [state.scheduled]
    for subqueue in state.subqueues:
        found += (subqueue.ready, subqueue.deferred)
    return found
