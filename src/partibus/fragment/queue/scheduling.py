"""Scheduled messages: their activation when they are due, and their cancellation.

Owns the table of scheduled messages after arrival. Activation appends a message as if it were
enqueued now: a new number, a new time, and its time to live begins (SCH-4).
"""

from partibus.domain.errors import BusError, MessageNotFound
from partibus.fragment.changes import Activation, Cancellation, Change
from partibus.fragment.commands import CancelScheduled, Command
from partibus.fragment.effects import Done, Effects, Failed
from partibus.fragment.message import Held
from partibus.fragment.queue.arrivals import expiry_ms, take_numbers_back
from partibus.fragment.queue.delivery import removal
from partibus.fragment.queue.dispatch import dispatch
from partibus.fragment.queue.table import WAS_SCHEDULED
from partibus.fragment.records import ACTIVATED, ACTIVATED_META, NO_TTL, pack_sequences
from partibus.fragment.state import State
from partibus.fragment.upkeep.slices import Allowance
from partibus.store.record import Record


def take_due(state: State, allowance: Allowance, now_ms: int) -> list[Held]:
    """Take out the next messages that are due, in the order of their due times (SCH-5)."""
    waiting = state.due
    if not waiting:
        waiting.extend(state.scheduled.due(now_ms))
    due: list[Held] = []
    while waiting and len(due) < allowance.left:
        held = state.scheduled.take(waiting.popleft())
        # It may have been cancelled in the meantime.
        if held is not None:
            state.departing[held.sequence] = held
            due.append(held)
    allowance.spend(len(due))
    return due


def activate_due(state: State, allowance: Allowance, now_ms: int, out: Effects) -> None:
    """Prepare the activation of messages that are due."""
    due = take_due(state, allowance, now_ms)
    if not due:
        return
    first = state.next_sequence
    state.next_sequence = first + len(due)
    expiries: list[int] = []
    words: list[int] = []
    for held in due:
        ttl = held.delivery_count
        expires_ms = expiry_ms(state, -1 if ttl == NO_TTL else ttl, now_ms)
        expiries.append(expires_ms)
        words += (held.sequence, expires_ms)
    meta = ACTIVATED_META.pack(now_ms, first) + pack_sequences(words)
    record = Record(state.fragment_id, ACTIVATED, meta, b"")
    out.changes.append(Activation([record], due, first, now_ms, expiries))


def activated(state: State, change: Change, now_ms: int, out: Effects) -> None:
    """The messages are active now."""
    assert isinstance(change, Activation)
    sequence = change.first_sequence
    for held, expires_ms in zip(change.messages, change.expires_ms, strict=True):
        del state.departing[held.sequence]
        if state.sessions is not None:
            state.sessions.renumber(held.sequence, sequence)
        state.main.ready.push(
            sequence, held.position, held.length, change.activated_ms, expires_ms, WAS_SCHEDULED
        )
        sequence += 1
    state.next_sequence_durable = sequence
    dispatch(state, state.main, now_ms, out)


def abort_activation(state: State, change: Change, error: BusError, out: Effects) -> None:
    """The store failed: they stay scheduled and are due again at the next turn."""
    assert isinstance(change, Activation)
    take_numbers_back(state, change.first_sequence)
    reinstate(state, change.messages)


def cancel(state: State, command: Command, now_ms: int, out: Effects) -> None:
    """Cancel scheduled messages, all or none (SCH-3, SCH-8)."""
    assert isinstance(command, CancelScheduled)
    taken: list[Held] = []
    missing: list[int] = []
    for sequence in dict.fromkeys(command.sequences):
        held = state.scheduled.take(sequence)
        if held is None:
            missing.append(sequence)
        else:
            state.departing[sequence] = held
            taken.append(held)
    if missing:
        reinstate(state, taken)
        text = ", ".join(map(str, missing[:10]))
        error = MessageNotFound(
            f"Missing sequence numbers: {text}. They are not, or no longer, scheduled."
        )
        out.outward.append(Failed(command.port, error))
        return
    out.changes.append(Cancellation([removal(state, taken)], taken, command.port))


def cancelled(state: State, change: Change, now_ms: int, out: Effects) -> None:
    """The messages are gone."""
    assert isinstance(change, Cancellation)
    for held in change.messages:
        del state.departing[held.sequence]
        state.size_bytes -= held.length
    if state.sessions is not None:
        state.sessions.forget([held.sequence for held in change.messages])
    out.released.extend(change.messages)
    out.outward.append(Done(change.port, len(change.messages)))


def abort_cancellation(state: State, change: Change, error: BusError, out: Effects) -> None:
    """The store failed: they stay scheduled."""
    assert isinstance(change, Cancellation)
    reinstate(state, change.messages)
    out.outward.append(Failed(change.port, error))


def reinstate(state: State, messages: list[Held]) -> None:
    """Schedule them again; due ones are looked up again, so the order is kept."""
    state.due.clear()
    for held in messages:
        del state.departing[held.sequence]
        state.scheduled.insert(held)
