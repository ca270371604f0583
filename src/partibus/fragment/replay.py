"""Recovery: the records after a snapshot are applied to its state.

Owns what each kind of record means for a state that serves nobody yet. Records arrive in the
order in which they became durable. Nothing here runs while the fragment serves.
"""

from collections.abc import Iterator
from typing import Final

from partibus.domain.errors import StoreCorrupt
from partibus.fragment.claims import records as claim_records
from partibus.fragment.cursors import behaviour as cursors
from partibus.fragment.cursors.retention import keep_replayed
from partibus.fragment.message import Held, MessageState
from partibus.fragment.outbox.records import replay_outbox
from partibus.fragment.queue.duplicates import replay_identities
from partibus.fragment.queue.settlement import lay_over
from partibus.fragment.queue.table import WAS_SCHEDULED, MessageTable
from partibus.fragment.records import (
    ACTIVATED,
    ACTIVATED_META,
    DEAD_LETTERED,
    DEFERRED,
    DEFERRED_COUNTED,
    ENQUEUED,
    ENQUEUED_DUE,
    ENQUEUED_META,
    IDENTIFIED,
    IN_SESSIONS,
    REMOVED,
    RETURNED,
    RETURNED_UNCOUNTED,
    SCHEDULED,
    SCHEDULED_LONG,
    SCHEDULED_META,
    SCHEDULED_UNDER,
    SESSION_STATE,
    unpack_overlay,
    unpack_sequences,
)
from partibus.fragment.sessions.records import replay_in_sessions, replay_state, state_bodies
from partibus.fragment.spec import FragmentSpec
from partibus.fragment.stages import records as stage_records
from partibus.fragment.state import State
from partibus.fragment.transactions.numbered_arrivals import replay_numbered

NO_SPEC: Final = FragmentSpec(lock_duration_ms=0, max_delivery_count=0)
"""A state is rebuilt without its entity's properties; the node gives them to it afterwards."""


def replay(state: State, kind: int, meta: bytes, position: int, length: int) -> None:
    """Apply one record of the log."""
    if kind in (ENQUEUED, ENQUEUED_DUE):
        sequence, enqueued_ms, expires_ms = ENQUEUED_META.unpack(meta)
        extra = WAS_SCHEDULED if kind == ENQUEUED_DUE else 0
        push_next(state.main.ready, sequence, position, length, enqueued_ms, expires_ms, extra)
        state.next_sequence = sequence + 1
    elif kind == REMOVED:
        sequences = unpack_sequences(meta)
        for sequence in sequences:
            held, table = _take(state, sequence)
            if table is not state.scheduled:
                keep_replayed(state, held)
        if state.sessions is not None:
            state.sessions.forget(sequences)
    elif kind in (RETURNED, RETURNED_UNCOUNTED):
        _returned(state, meta, kind == RETURNED)
    elif kind == DEAD_LETTERED:
        _dead_lettered(state, meta)
    elif kind in (DEFERRED, DEFERRED_COUNTED):
        _deferred(state, meta, kind == DEFERRED_COUNTED)
    elif kind == SCHEDULED:
        sequence, enqueued_ms, due_ms, ttl = SCHEDULED_META.unpack(meta)
        push_next(state.scheduled, sequence, position, length, enqueued_ms, due_ms, ttl)
        state.next_sequence = sequence + 1
    elif kind in (SCHEDULED_UNDER, SCHEDULED_LONG):
        replay_numbered(state, kind, meta, position, length)
    elif kind == ACTIVATED:
        _activated(state, meta)
    elif kind == IDENTIFIED:
        replay_identities(state, meta)
    elif kind == IN_SESSIONS:
        replay_in_sessions(state, meta)
    elif kind == SESSION_STATE:
        replay_state(state, meta, position, length)
    elif kind in claim_records.KINDS:
        claim_records.replay_claim(state, kind, meta)
    elif kind in cursors.KINDS:
        cursors.replay_cursor(state, kind, meta)
    elif kind in stage_records.KINDS:
        stage_records.replay_stage(state, kind, meta, position, length)
    elif not replay_outbox(state, kind, meta, position, length, _leave):
        raise StoreCorrupt(
            f"a record of kind {kind} is not known to this release; "
            "open the data with the release that wrote it"
        )


def push_next(
    table: MessageTable,
    sequence: int,
    position: int,
    length: int,
    enqueued_ms: int,
    expires_ms: int,
    extra: int,
) -> None:
    """Add a message at the tail; one that two fragments wrote under one id shows here."""
    if sequence <= table.last_sequence:
        raise StoreCorrupt(
            f"message {sequence} comes after message {table.last_sequence}: two fragments have "
            "written under one id"
        )
    table.push(sequence, position, length, enqueued_ms, expires_ms, extra)


def finish(state: State, fragment_id: int, spec: FragmentSpec) -> list[tuple[int, int]]:
    """Make a rebuilt state ready to serve; gives (position, length) of its bodies."""
    state.fragment_id = fragment_id
    state.spec = spec
    # Snapshots of subscriptions once did not tell how far the topic's numbers had come.
    state.next_sequence = max(state.next_sequence, state.main.ready.last_sequence + 1)
    state.next_sequence_durable = state.next_sequence
    outbox = state.outbox
    outbox.next_number_durable = outbox.recovered_below = outbox.next_number
    if spec.requires_session:
        state.require_sessions()
    bodies = list(stored_bodies(state))
    state.size_bytes = sum([length for _, length in bodies])
    if state.retention is not None:
        # What is kept for cursors does not count against the entity's size.
        bodies += state.retention.bodies()
    return bodies


def stored_bodies(state: State) -> Iterator[tuple[int, int]]:
    """(position, length) of every body in the tables that counts for the size of a state."""
    yield from state.scheduled.bodies()
    yield from state.outbox.table.bodies()
    for lane in state.lanes:
        yield from lane.ready.bodies()
        yield from lane.deferred.bodies()
    if state.sessions is not None:
        yield from state_bodies(state.sessions)
    if state.claims is not None:
        yield from state.claims.bodies()
    if state.stages is not None:
        yield from state.stages.bodies()


def _take(state: State, sequence: int) -> tuple[Held, MessageTable]:
    """Take a message out of the table it is in; the likely ones are asked first."""
    for lane in state.lanes:
        for table in (lane.ready, lane.deferred):
            held = table.take(sequence)
            if held is not None:
                return held, table
    held = state.scheduled.take(sequence)
    if held is None:
        raise StoreCorrupt(f"a record speaks of message {sequence}, which is not there")
    return held, state.scheduled


def _leave(state: State, sequence: int) -> Held:
    """Take a message out for the outbox."""
    held, _ = _take(state, sequence)
    return held


def _returned(state: State, meta: bytes, counted: bool) -> None:
    overlay, offset = unpack_overlay(meta, 0)
    for sequence in unpack_sequences(meta, offset):
        held, table = _take(state, sequence)
        held.delivery_count += counted
        lay_over(held, overlay)
        table.insert(held)


def _dead_lettered(state: State, meta: bytes) -> None:
    overlay, offset = unpack_overlay(meta, 1)
    for sequence in unpack_sequences(meta, offset):
        held, _ = _take(state, sequence)
        held.delivery_count += meta[0]
        held.state = MessageState.ACTIVE
        lay_over(held, overlay)
        state.dead.ready.insert(held)
        if state.sessions is not None:
            state.sessions.forget([sequence])


def _deferred(state: State, meta: bytes, counted: bool) -> None:
    overlay, offset = unpack_overlay(meta, 0)
    for sequence in unpack_sequences(meta, offset):
        held, table = _take(state, sequence)
        held.delivery_count += counted
        held.state = MessageState.DEFERRED
        lay_over(held, overlay)
        for lane in state.lanes:
            if table is lane.ready or table is lane.deferred:
                lane.deferred.insert(held)


def _activated(state: State, meta: bytes) -> None:
    activated_ms, sequence = ACTIVATED_META.unpack_from(meta, 0)
    words = unpack_sequences(meta, ACTIVATED_META.size)
    for index in range(0, len(words), 2):
        held = state.scheduled.take(words[index])
        if held is None:
            raise StoreCorrupt(f"message {words[index]} was activated but never scheduled")
        if state.sessions is not None:
            state.sessions.renumber(held.sequence, sequence)
        expires_ms = words[index + 1]
        position, length = held.position, held.length
        ready = state.main.ready
        push_next(ready, sequence, position, length, activated_ms, expires_ms, WAS_SCHEDULED)
        sequence += 1
    state.next_sequence = sequence
