"""Receiving in sessions: held sessions are served, freed ones find their next holder.

Owns the delivery of a session's messages in strict order to the one who holds it (SES-9), and which
waiting receiver gets which free session (SES-4, SES-25). Called by `queue.dispatch` whenever
something happened to the subqueue; `locks` owns how sessions are accepted and lost.
"""

from partibus.domain.errors import BusError, InvalidOperation, SessionCannotBeLocked
from partibus.fragment.commands import Consumer
from partibus.fragment.effects import Effects
from partibus.fragment.message import Held
from partibus.fragment.outbox.departures import depart_waiting
from partibus.fragment.queue.delivery import hand_over
from partibus.fragment.queue.expiry import expire
from partibus.fragment.queue.subqueue import SubQueue
from partibus.fragment.sessions.commands import SessionConsumer
from partibus.fragment.sessions.effects import Accepted, NotAccepted, SessionLost
from partibus.fragment.sessions.state import Session, SessionLock
from partibus.fragment.sessions.subqueue import SessionSubQueue
from partibus.fragment.state import State
from partibus.fragment.upkeep.slices import SLICE


def session_subqueue(subqueue: SubQueue) -> SessionSubQueue:
    """A subqueue that is known to have sessions."""
    assert isinstance(subqueue, SessionSubQueue)
    return subqueue


def serve_sessions(state: State, subqueue: SessionSubQueue, now_ms: int, out: Effects) -> None:
    """Serve every session that changed, then receivers that wait for any session."""
    if state.suspended:
        return
    sessions = subqueue.in_sessions
    if state.spec.forward_to:
        _turn_away(state, subqueue, out)
    touched = sessions.touched
    postponed: list[Session] = []
    while touched:
        session, _ = touched.popitem()
        lock = session.lock
        if lock is None:
            sessions.offer(session)
            sessions.drop_if_empty(session)
        elif not lock.is_closing:
            if not _feed(state, subqueue, session, lock, now_ms, out):
                postponed.append(session)
        elif lock.is_idle:
            _set_free(state, subqueue, lock, now_ms, out)
    if state.spec.forward_to:
        depart_waiting(state, subqueue, out)
    for session in postponed:
        touched[session] = None
    while sessions.acceptors:
        oldest = sessions.oldest()
        if oldest is None:
            return
        consumer = next(iter(sessions.acceptors))
        del sessions.acceptors[consumer]
        grant(state, subqueue, oldest, consumer, now_ms, out)


def _turn_away(state: State, subqueue: SessionSubQueue, out: Effects) -> None:
    """The entity forwards now: end its sessions' locks and the waiting for one (FWD-4)."""
    sessions = subqueue.in_sessions
    for lock in list(sessions.locks.values()):
        revoke(subqueue, lock.consumer, forwarding(state), out)
        for successor in lock.successors:
            out.outward.append(NotAccepted(successor, forwarding(state)))
        lock.successors.clear()
    for consumer in sessions.acceptors:
        out.outward.append(NotAccepted(consumer, forwarding(state)))
    sessions.acceptors.clear()


def forwarding(state: State) -> InvalidOperation:
    """The error for a receiver on an entity that forwards."""
    spec = state.spec
    return InvalidOperation(f"'{spec.path}' forwards to '{spec.forward_to}'; receive from there.")


def _feed(
    state: State,
    subqueue: SessionSubQueue,
    session: Session,
    lock: SessionLock,
    now_ms: int,
    out: Effects,
) -> bool:
    """Give the holder what it has room for, in order; expired messages are set aside (TTL-4).

    Returns False when too many have expired; the rest is left to the next ticks.
    """
    if lock.returning or lock.until_ms <= now_ms:
        return True
    consumer = lock.consumer
    share = consumer.limit - consumer.sent
    taken: list[Held] = []
    expired: list[Held] = []
    is_done = True
    while len(taken) < share and session.first():
        if (state.is_behind or len(expired) >= SLICE) and _is_over(
            subqueue, session.first(), now_ms
        ):
            state.is_behind = True
            is_done = False
            break
        held = subqueue.waiting_in_sessions.take_first(session)
        if 0 < held.expires_ms <= now_ms:
            expired.append(held)
        else:
            taken.append(held)
    if taken:
        consumer.sent += len(taken)
        hand_over(state, subqueue, consumer, taken, now_ms, out)
    if expired:
        expire(state, expired, out)
    return is_done


def _is_over(subqueue: SessionSubQueue, sequence: int, now_ms: int) -> bool:
    held = subqueue.ready.copy_of(sequence)
    return held is not None and 0 < held.expires_ms <= now_ms


def grant(
    state: State,
    subqueue: SessionSubQueue,
    session: Session,
    consumer: SessionConsumer,
    now_ms: int,
    out: Effects,
) -> None:
    """Give a free session to a receiver for the entity's lock duration (SES-7)."""
    number = state.next_token
    state.next_token = number + 1
    until_ms = now_ms + state.spec.lock_duration_ms
    subqueue.in_sessions.lock(session, consumer, number, until_ms)
    out.outward.append(Accepted(consumer, session.session_id, until_ms, number))


def _set_free(
    state: State, subqueue: SessionSubQueue, lock: SessionLock, now_ms: int, out: Effects
) -> None:
    """Nothing of a released session is in flight: give it to a receiver that has asked for it."""
    session = lock.session
    subqueue.in_sessions.unlock(lock)
    for successor in lock.successors:
        if successor.gone:
            continue
        if session.lock is None:
            grant(state, subqueue, session, successor, now_ms, out)
        else:
            out.outward.append(NotAccepted(successor, SessionCannotBeLocked()))
    if session.lock is None:
        subqueue.in_sessions.offer(session)
        subqueue.in_sessions.drop_if_empty(session)


def revoke(subqueue: SessionSubQueue, consumer: Consumer, error: BusError, out: Effects) -> None:
    """Take a session from its holder, as if it had been released, and report why."""
    lock = subqueue.in_sessions.lock_of.get(consumer)
    if lock is not None and not lock.is_closing:
        subqueue.release(lock)
        out.outward.append(SessionLost(lock.consumer, error))
