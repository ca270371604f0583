"""Messages by number and without order: deferred receive, peek and purge.

Owns the requests that come through the management node instead of a receiving link. Peek shows
copies and touches nothing (PEK-1).
"""

from collections.abc import Iterable, Iterator
from heapq import merge

from partibus.domain.errors import BusError, MessageNotFound, SessionLockLost, StoreUnavailable
from partibus.fragment.changes import Change, DeferredConsumption, Removal
from partibus.fragment.commands import Command, Peek, Pick, Purge, ReceiveDeferred, SubQueueType
from partibus.fragment.cursors.retention import keep
from partibus.fragment.effects import Done, Effects, Failed, Shown
from partibus.fragment.message import Held, MessageState, as_many_as_fit
from partibus.fragment.queue.delivery import lock, removal
from partibus.fragment.queue.expiry import EXPIRED, dead_letter
from partibus.fragment.queue.subqueue import SubQueue
from partibus.fragment.sessions.state import Session, Sessions
from partibus.fragment.state import State

# --- deferred messages ----------------------------------------------------------------------------


def receive_deferred(state: State, command: Command, now_ms: int, out: Effects) -> None:
    """Deferred messages by their numbers, all or none (DEF-2, DEF-3)."""
    assert isinstance(command, ReceiveDeferred)
    if state.suspended:
        out.outward.append(Failed(command.port, StoreUnavailable()))
        return
    subqueue = state.subqueues[command.subqueue]
    wanted = list(dict.fromkeys(command.sequences))
    sought = wanted
    if subqueue.sessions is not None:
        holder = subqueue.sessions.valid_lock(command.session_id, command.lock, now_ms)
        if holder is None:
            out.outward.append(Failed(command.port, SessionLockLost()))
            return
        sought = [number for number in wanted if subqueue.sessions.find(number) is holder.session]
    taken = [held for held in map(subqueue.deferred.take, sought) if held is not None]
    for held in taken:
        held.deferred = True
        held.state = MessageState.DEFERRED
    expired = _expired(taken, subqueue, now_ms)
    if expired or len(taken) < len(wanted):
        for held in taken:
            if held not in expired:
                subqueue.put_back(held)
        _bury(state, expired, out)
        out.outward.append(Failed(command.port, _missing(wanted, taken, expired)))
    elif command.deletes:
        subqueue.leave(taken)
        record = removal(state, taken)
        out.changes.append(DeferredConsumption([record], command.subqueue, taken, command.port))
    else:
        lock(state, subqueue, taken, now_ms)
        out.outward.append(Shown(command.port, taken, False))


def _expired(taken: list[Held], subqueue: SubQueue, now_ms: int) -> list[Held]:
    if subqueue.subqueue is not SubQueueType.MAIN:
        return []
    return [held for held in taken if 0 < held.expires_ms <= now_ms]


def _bury(state: State, expired: list[Held], out: Effects) -> None:
    """An expired deferred message is dead-lettered when it is asked for (TTL-10)."""
    if expired:
        state.main.leave(expired)
        dead_letter(state, expired, EXPIRED, False, out)


def _missing(wanted: list[int], taken: list[Held], expired: list[Held]) -> MessageNotFound:
    there = {held.sequence for held in taken if held not in expired}
    text = ", ".join([str(sequence) for sequence in wanted if sequence not in there][:10])
    return MessageNotFound(
        f"Failed to find deferred messages with these sequence numbers: {text}. "
        "They are gone, locked by another receiver, or were never deferred."
    )


def deferred_consumed(state: State, change: Change, now_ms: int, out: Effects) -> None:
    """The removal is durable: hand the messages over."""
    assert isinstance(change, DeferredConsumption)
    subqueue = state.subqueues[change.subqueue]
    for held in change.messages:
        subqueue.let_go(held)
        state.size_bytes -= held.length
    if subqueue.sessions is not None:
        subqueue.sessions.forget([held.sequence for held in change.messages])
    keep(state, change.messages, out)
    out.outward.append(Shown(change.port, change.messages, True))


def abort_deferred_consumption(state: State, change: Change, error: BusError, out: Effects) -> None:
    """The store failed: they stay deferred."""
    assert isinstance(change, DeferredConsumption)
    subqueue = state.subqueues[change.subqueue]
    subqueue.stay(change.messages)
    out.outward.append(Failed(change.port, error))


# --- waiting messages by number ------------------------------------------------------------------


def pick(state: State, command: Command, now_ms: int, out: Effects) -> None:
    """Waiting messages by their numbers; those already taken by others are left out (JMS-5)."""
    assert isinstance(command, Pick)
    if state.suspended:
        out.outward.append(Failed(command.port, StoreUnavailable()))
        return
    subqueue = state.subqueues[command.subqueue]
    taken: list[Held] = []
    for sequence in command.sequences:
        waiting = subqueue.ready.copy_of(sequence)
        # Expired messages are left to the ticks, which remove them; dead letters stay (TTL-9).
        if waiting is not None and not _expired([waiting], subqueue, now_ms):
            held = subqueue.ready.take(sequence)
            assert held is not None
            taken.append(held)
    lock(state, subqueue, taken, now_ms)
    out.outward.append(Shown(command.port, taken, False))


# --- peek -----------------------------------------------------------------------------------------


def peek(state: State, command: Command, now_ms: int, out: Effects) -> None:
    """Copies of messages from a number on, in order, as many as fit (PEK-4, PEK-5, PEK-7)."""
    assert isinstance(command, Peek)
    subqueue = state.subqueues[command.subqueue]
    if command.session_id is not None and subqueue.sessions is not None:
        session_id, first = command.session_id, command.from_sequence
        shown = _in_session(state, subqueue, subqueue.sessions, session_id, first)
    elif command.only_waiting:
        shown = iter(subqueue.ready.copies(command.from_sequence))
    else:
        shown = _all_from(state, subqueue, command.from_sequence)
    found = as_many_as_fit(shown, command.message_count_max, command.byte_count_max)
    out.outward.append(Shown(command.port, found, False))


def _all_from(state: State, subqueue: SubQueue, from_sequence: int) -> Iterator[Held]:
    """Every message of a subqueue by sequence: active, locked, deferred, scheduled (PEK-2)."""
    sources = _subqueue_from(subqueue, from_sequence)
    if subqueue is state.main:
        if state.claims is not None:
            claims = state.claims.by_owner.values()
            sources += [claim.table.copies(from_sequence) for claim in claims]
        scheduled = state.scheduled.copies(from_sequence)
        sources.append(_in_state(scheduled, MessageState.SCHEDULED))
        departing = _outside(state.departing.values(), from_sequence)
        sources.append(_in_state(departing, MessageState.SCHEDULED))
    return merge(*sources, key=lambda held: held.sequence)


def _subqueue_from(subqueue: SubQueue, from_sequence: int) -> list[Iterable[Held]]:
    """Messages of a subqueue that wait, are deferred, locked, or leaving; each in order."""
    return [
        subqueue.ready.copies(from_sequence),
        _in_state(subqueue.deferred.copies(from_sequence), MessageState.DEFERRED),
        _outside(subqueue.locks.values(), from_sequence),
        _outside(subqueue.leaving.values(), from_sequence),
    ]


def _in_session(
    state: State, subqueue: SubQueue, sessions: Sessions, session_id: str, from_sequence: int
) -> Iterator[Held]:
    """Every message of one session by sequence, without looking at any other (PEK-3)."""
    session = sessions.by_id.get(session_id)
    if session is None:
        return iter(())
    in_flight = [] if session.lock is None else session.lock.in_flight.values()
    leaving = [
        held for held in subqueue.leaving.values() if sessions.find(held.sequence) is session
    ]
    departing = [
        held for held in state.departing.values() if sessions.find(held.sequence) is session
    ]
    return merge(
        _waiting_copies(session, subqueue, from_sequence),
        _aside_copies(session, state, subqueue, from_sequence),
        _outside(in_flight, from_sequence),
        _outside(leaving, from_sequence),
        _in_state(_outside(departing, from_sequence), MessageState.SCHEDULED),
        key=lambda held: held.sequence,
    )


def _waiting_copies(session: Session, subqueue: SubQueue, from_sequence: int) -> Iterator[Held]:
    for sequence in session.waiting(from_sequence):
        held = subqueue.ready.copy_of(sequence)
        assert held is not None
        yield held


def _aside_copies(
    session: Session, state: State, subqueue: SubQueue, from_sequence: int
) -> Iterator[Held]:
    for sequence in session.aside(from_sequence):
        held = subqueue.deferred.copy_of(sequence)
        if held is not None:
            yield from _in_state([held], MessageState.DEFERRED)
            continue
        held = state.scheduled.copy_of(sequence)
        assert held is not None
        yield from _in_state([held], MessageState.SCHEDULED)


def _outside(messages: Iterable[Held], from_sequence: int) -> list[Held]:
    """Copies of messages that are out of the tables."""
    chosen = [held for held in messages if held.sequence >= from_sequence]
    chosen.sort(key=lambda held: held.sequence)
    return [_copy(held) for held in chosen]


def _copy(held: Held) -> Held:
    copy = held.copy_as(held.sequence)
    copy.state = MessageState.DEFERRED if held.deferred else MessageState.ACTIVE
    return copy


def _in_state(messages: Iterable[Held], message_state: MessageState) -> Iterator[Held]:
    for held in messages:
        held.state = message_state
        if message_state is MessageState.SCHEDULED:
            # Its columns hold the time it is due and its time to live, which begins then.
            held.expires_ms = 0
            held.delivery_count = 0
        yield held


# --- purge ----------------------------------------------------------------------------------------


def purge(state: State, command: Command, now_ms: int, out: Effects) -> None:
    """Delete waiting messages from the front, up to the first that is too new (BAT-6)."""
    assert isinstance(command, Purge)
    subqueue = state.subqueues[command.subqueue]
    chosen: list[int] = []
    waiting = subqueue.ready.copies(0)
    if command.session_id is not None and subqueue.sessions is not None:
        session = subqueue.sessions.by_id.get(command.session_id)
        waiting = iter(()) if session is None else _waiting_copies(session, subqueue, 0)
    for held in waiting:
        if len(chosen) >= command.message_count_max:
            break
        if held.enqueued_ms < command.before_ms:
            chosen.append(held.sequence)
    taken = [held for held in map(subqueue.ready.take, chosen) if held is not None]
    if not taken:
        out.outward.append(Done(command.port, 0))
        return
    subqueue.leave(taken)
    out.changes.append(Removal([removal(state, taken)], command.subqueue, taken, command.port))
