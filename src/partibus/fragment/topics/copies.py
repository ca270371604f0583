"""Arriving in a subscription: copies of a topic's messages wait to be received.

Owns the subscription's part of a publication. From here on a copy is a message like any other:
received, settled, deferred and expired by the subscription's own fragment. Its body may be shared
with other subscriptions, so each copy holds its own reference to it.
"""

from partibus.domain.errors import BusError
from partibus.fragment.changes import Change
from partibus.fragment.effects import Effects
from partibus.fragment.message import Held
from partibus.fragment.queue.dispatch import dispatch
from partibus.fragment.queue.table import WAS_SCHEDULED
from partibus.fragment.state import State
from partibus.fragment.topics.changes import Copies


def copies_arrived(state: State, change: Change, now_ms: int, out: Effects) -> None:
    """The publication is durable: make the copies visible."""
    assert isinstance(change, Copies)
    enqueued_ms = change.enqueued_ms
    push = state.main.ready.push
    extra = WAS_SCHEDULED if change.were_scheduled else 0
    has_dead_letters = False
    next_sequence = state.next_sequence
    for copy in change.copies:
        next_sequence = max(next_sequence, copy.sequence + 1)
        position = copy.source.position
        out.retained.append((position, copy.length))
        if copy.overlay is not None:
            has_dead_letters = True
            dead = Held(
                copy.sequence, position, copy.length, enqueued_ms, copy.expires_ms, 0, copy.overlay
            )
            state.dead.ready.insert(dead)
            continue
        if state.sessions is not None:
            state.sessions.enter(copy.sequence, copy.session_id or "")
        push(copy.sequence, position, copy.length, enqueued_ms, copy.expires_ms, extra)
    # A copy has the topic's number (SEQ-11), and cursors need to know how far the numbers go.
    state.next_sequence = state.next_sequence_durable = next_sequence
    dispatch(state, state.main, now_ms, out)
    if has_dead_letters:
        dispatch(state, state.dead, now_ms, out)


def abort_copies(state: State, change: Change, error: BusError, out: Effects) -> None:
    """The store failed: nothing has arrived; the topic answers the sender."""
    assert isinstance(change, Copies)
    state.size_bytes -= change.byte_count
