"""Settling: what becomes of a message that a receiver holds.

Owns complete, abandon, dead-letter, defer and release, the renewal of locks and their lapse,
and the count of deliveries with its limit. A settlement is answered when it is durable; one
whose lock is gone changes nothing (LCK-5).
"""

from typing import Final

from partibus.domain.errors import BusError, InvalidOperation
from partibus.fragment.changes import Answer, Change, DeadLettering, Deferral, Removal, Return
from partibus.fragment.commands import Command, Outcome, Renew, Settle, SubQueueType
from partibus.fragment.cursors.retention import keep
from partibus.fragment.effects import Answered, Done, Effects, Failed, Settled
from partibus.fragment.message import Held, MessageState, Overlay
from partibus.fragment.outbox.departures import enter, take_outbox_numbers_back
from partibus.fragment.outbox.state import Purpose
from partibus.fragment.queue.delivery import removal
from partibus.fragment.queue.dispatch import dispatch
from partibus.fragment.queue.expiry import dead_letter
from partibus.fragment.queue.subqueue import SubQueue
from partibus.fragment.records import (
    DEFERRED,
    DEFERRED_COUNTED,
    RETURNED,
    RETURNED_UNCOUNTED,
    pack_overlay,
    pack_sequences,
)
from partibus.fragment.state import State
from partibus.fragment.upkeep.slices import Allowance
from partibus.store.record import Record

TOO_MANY_DELIVERIES: Final = Overlay(
    reason="MaxDeliveryCountExceeded",
    description="Message could not be consumed after the maximum number of delivery attempts.",
)


def settle(state: State, command: Command, now_ms: int, out: Effects) -> None:
    """Settle what is locked, and report which locks are lost."""
    assert isinstance(command, Settle)
    subqueue = state.subqueues[command.subqueue]
    held: list[Held] = []
    lost: list[int] = []
    for token in command.tokens:
        message = subqueue.valid_lock(token, now_ms)
        if message is None:
            lost.append(token)
        else:
            held.append(message)
    state.tally.lost += len(lost)
    refusal = refusal_of(subqueue, command.outcome)
    if held and refusal is None:
        _prepare(state, subqueue, command, held, now_ms, out)
    if command.port is None:
        return
    if held and refusal is None and command.outcome is not Outcome.RELEASE:
        out.changes.append(Answer(command, lost))
    else:
        out.outward.append(Settled(command.port, command.request, lost, refusal))


def refusal_of(subqueue: SubQueue, outcome: Outcome) -> BusError | None:
    """Why messages of a subqueue cannot be settled this way, whatever their locks; None if they
    can."""
    if outcome is Outcome.DEAD_LETTER and subqueue.subqueue is not SubQueueType.MAIN:
        return InvalidOperation(
            "A message in a dead-letter queue cannot be dead-lettered again; "
            "complete it, abandon it or send it elsewhere."
        )
    return None


def _prepare(
    state: State, subqueue: SubQueue, command: Settle, held: list[Held], now_ms: int, out: Effects
) -> None:
    outcome = command.outcome
    if outcome is Outcome.RELEASE:
        for message in held:
            subqueue.unlock(message)
            subqueue.put_back(message)
        dispatch(state, subqueue, now_ms, out)
        return
    for message in held:
        message.busy = True
    if outcome is Outcome.COMPLETE:
        out.changes.append(Removal([removal(state, held)], subqueue.subqueue, held))
    elif outcome is Outcome.ABANDON:
        state.tally.abandoned += len(held)
        end_delivery(state, subqueue, held, command.overlay, out)
    elif outcome is Outcome.DEFER:
        _defer(state, subqueue, held, command.overlay, out)
    else:
        dead_letter(state, held, command.overlay or Overlay(), False, out)


def _defer(
    state: State, subqueue: SubQueue, held: list[Held], overlay: Overlay | None, out: Effects
) -> None:
    """Prepare a deferral; the delivery it ends is counted, but not limited (DLV-3)."""
    counted = counts_deliveries(state, subqueue)
    record = _moved(state, DEFERRED_COUNTED if counted else DEFERRED, held, overlay)
    out.changes.append(Deferral([record], subqueue.subqueue, held, overlay, counted))


def counts_deliveries(state: State, subqueue: SubQueue) -> bool:
    """Whether deliveries of a subqueue are counted; those of dead letters not always (DLV-4)."""
    return subqueue is state.main or state.spec.counts_dead_letters


def _moved(state: State, kind: int, held: list[Held], overlay: Overlay | None) -> Record:
    sequences = pack_sequences([message.sequence for message in held])
    return Record(state.fragment_id, kind, pack_overlay(overlay) + sequences, b"")


def end_delivery(
    state: State, subqueue: SubQueue, held: list[Held], overlay: Overlay | None, out: Effects
) -> None:
    """A delivery ended without success: count it, and dead-letter at the limit (DLV-2)."""
    spent: list[Held] = []
    again = held
    if subqueue is state.main:
        most = state.spec.max_delivery_count
        spent = [message for message in held if message.delivery_count + 1 >= most]
        if spent:
            again = [message for message in held if message.delivery_count + 1 < most]
    if spent:
        last = TOO_MANY_DELIVERIES
        last = last if overlay is None else overlay.merged(last)
        dead_letter(state, spent, last, True, out)
    if again:
        if subqueue.sessions is not None:
            subqueue.sessions.hold_back(again)
        counted = counts_deliveries(state, subqueue)
        record = _moved(state, RETURNED if counted else RETURNED_UNCOUNTED, again, overlay)
        out.changes.append(Return([record], subqueue.subqueue, again, overlay, counted))


def lapse(
    state: State, subqueue: SubQueue, allowance: Allowance, now_ms: int, out: Effects
) -> None:
    """Locks whose time is up end their delivery (SEED-100)."""
    lapsed = subqueue.lapsed(now_ms, allowance.left)
    allowance.spend(len(lapsed))
    if lapsed:
        state.tally.lapsed += len(lapsed)
        for held in lapsed:
            held.busy = True
        end_delivery(state, subqueue, lapsed, None, out)


def drop_locks(state: State, allowance: Allowance, now_ms: int, out: Effects) -> None:
    """The time of every lock is up now; the deliveries end as in any lapse (SEED-100)."""
    for subqueue in state.subqueues:
        for held in subqueue.locks.values():
            held.locked_until_ms = now_ms
        lapse(state, subqueue, allowance, now_ms, out)


def renew(state: State, command: Command, now_ms: int, out: Effects) -> None:
    """Extend locks from now; a lost one is reported as 0 (LCK-3)."""
    assert isinstance(command, Renew)
    subqueue = state.subqueues[command.subqueue]
    until_ms = now_ms + state.spec.lock_duration_ms
    answers: list[int] = []
    for token in command.tokens:
        held = subqueue.valid_lock(token, now_ms)
        if held is not None:
            subqueue.renew(held, until_ms)
        answers.append(0 if held is None else until_ms)
    out.outward.append(Answered(command.port.renewed, answers))


# --- when it is durable ------------------------------------------------------------------------


def removed(state: State, change: Change, now_ms: int, out: Effects) -> None:
    """The messages are gone for good."""
    assert isinstance(change, Removal)
    subqueue = state.subqueues[change.subqueue]
    if change.messages and change.messages[0].token:  # what expires or is purged has no lock
        state.tally.completed += len(change.messages)
    for held in change.messages:
        subqueue.let_go(held)
        state.size_bytes -= held.length
    keep(state, change.messages, out)
    out.released.extend(change.messages)
    if subqueue.sessions is not None:
        _left_sessions(state, change.messages, now_ms, out)
    if change.port is not None:
        out.outward.append(Done(change.port, len(change.messages)))


def _left_sessions(state: State, messages: list[Held], now_ms: int, out: Effects) -> None:
    """Messages have left their sessions for good; a session that was closing may be free now."""
    assert state.sessions is not None
    state.sessions.forget([held.sequence for held in messages])
    dispatch(state, state.main, now_ms, out)


def returned(state: State, change: Change, now_ms: int, out: Effects) -> None:
    """The messages wait again in their old place."""
    assert isinstance(change, Return)
    subqueue = state.subqueues[change.subqueue]
    for held in change.messages:
        held.delivery_count += change.counted
        held.lay_over(change.overlay)
        subqueue.unlock(held)
        subqueue.put_back(held)
    dispatch(state, subqueue, now_ms, out)


def deferred(state: State, change: Change, now_ms: int, out: Effects) -> None:
    """The messages are set aside under their numbers."""
    assert isinstance(change, Deferral)
    subqueue = state.subqueues[change.subqueue]
    state.tally.deferred += len(change.messages)
    for held in change.messages:
        held.delivery_count += change.counted
        held.lay_over(change.overlay)
        subqueue.unlock(held)
        held.deferred = True
        held.state = MessageState.DEFERRED
        subqueue.put_back(held)
    if subqueue.sessions is not None:
        dispatch(state, subqueue, now_ms, out)


def dead_lettered(state: State, change: Change, now_ms: int, out: Effects) -> None:
    """The messages are in the dead-letter subqueue, under their old numbers."""
    assert isinstance(change, DeadLettering)
    state.tally.dead_lettered += len(change.messages)
    for held in change.messages:
        state.main.let_go(held)
        held.delivery_count += change.counted
        held.deferred = False
        held.state = MessageState.ACTIVE
        held.lay_over(change.overlay)
        if not change.first_number:
            state.dead.ready.insert(held)
    if change.first_number:
        purpose = Purpose.DEAD_LETTER
        enter(state, change.messages, change.first_number, purpose, change.onward, out)
    if state.sessions is not None:
        _left_sessions(state, change.messages, now_ms, out)
    dispatch(state, state.dead, now_ms, out)


def answered(state: State, change: Change, now_ms: int, out: Effects) -> None:
    """All that was prepared for a settlement is durable."""
    assert isinstance(change, Answer)
    command = change.command
    assert command.port is not None
    out.outward.append(Settled(command.port, command.request, change.lost, None))


# --- when the store failed -----------------------------------------------------------------------


def abort_held(state: State, change: Change, error: BusError, out: Effects) -> None:
    """Locked messages stay locked; those without a lock wait again."""
    assert isinstance(change, Removal | Return | Deferral | DeadLettering)
    subqueue = state.main if isinstance(change, DeadLettering) else state.subqueues[change.subqueue]
    for held in change.messages:
        if held.token:
            subqueue.stay_locked(held)
        else:
            subqueue.let_go(held)
            subqueue.put_back(held)
    if isinstance(change, Removal) and change.port is not None:
        out.outward.append(Failed(change.port, error))
    if isinstance(change, DeadLettering) and change.first_number:
        take_outbox_numbers_back(state, change.first_number)


def abort_answer(state: State, change: Change, error: BusError, out: Effects) -> None:
    """A settlement failed as a whole."""
    assert isinstance(change, Answer)
    command = change.command
    assert command.port is not None
    out.outward.append(Settled(command.port, command.request, change.lost, error))
