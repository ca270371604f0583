"""The locks of sessions: accepted, renewed, lost.

Owns who may hold a session and until when. The lock covers the session's messages (SES-8): when it
lapses every message in flight ends as a delivery that counts (SES-13), and the session is free once
that is durable. A receiver that leaves releases its session without counting; `subqueue` does that.
"""

from partibus.domain.errors import (
    BusError,
    InvalidOperation,
    OperationTimeout,
    SessionCannotBeLocked,
    SessionLockLost,
    StoreUnavailable,
)
from partibus.fragment.commands import Command
from partibus.fragment.effects import Answered, Done, Effects, Failed
from partibus.fragment.queue.settlement import drop_locks as drop_message_locks
from partibus.fragment.queue.settlement import end_delivery
from partibus.fragment.sessions.commands import AcceptSession, FindOldestSession, RenewSession
from partibus.fragment.sessions.dispatch import forwarding, grant, serve_sessions
from partibus.fragment.sessions.effects import Accepted, NotAccepted, SessionLost
from partibus.fragment.sessions.state import SessionLock
from partibus.fragment.sessions.subqueue import SessionSubQueue
from partibus.fragment.state import State
from partibus.fragment.upkeep.slices import Allowance


def accept(state: State, command: Command, now_ms: int, out: Effects) -> None:
    """Give a session to a receiver, let it wait for one, or refuse."""
    assert isinstance(command, AcceptSession)
    subqueue = state.main
    consumer = command.consumer
    if consumer.gone:
        return
    consumer.is_exclusive = command.is_exclusive
    if not isinstance(subqueue, SessionSubQueue):
        out.outward.append(NotAccepted(consumer, without_sessions(state)))
    elif state.spec.forward_to:
        out.outward.append(NotAccepted(consumer, forwarding(state)))
    elif command.takes_over:
        _take_over(state, subqueue, command, now_ms, out)
    elif command.session_id is not None:
        _accept_certain(state, subqueue, command, command.session_id, now_ms, out)
    else:
        subqueue.in_sessions.acceptors[consumer] = None
        serve_sessions(state, subqueue, now_ms, out)
        if not command.waits and consumer in subqueue.in_sessions.acceptors:
            del subqueue.in_sessions.acceptors[consumer]
            out.outward.append(NotAccepted(consumer, OperationTimeout("No session is available.")))


def _accept_certain(
    state: State,
    subqueue: SessionSubQueue,
    command: AcceptSession,
    session_id: str,
    now_ms: int,
    out: Effects,
) -> None:
    """A named session: at once, or not at all (SES-3)."""
    if state.suspended:
        out.outward.append(NotAccepted(command.consumer, StoreUnavailable()))
        return
    session = subqueue.in_sessions.get(session_id)
    if session.lock is not None and session.lock.until_ms <= now_ms:
        _lapse(state, subqueue, session.lock, Allowance(), out)
        serve_sessions(state, subqueue, now_ms, out)
        session = subqueue.in_sessions.get(session_id)
    if session.lock is None:
        grant(state, subqueue, session, command.consumer, now_ms, out)
    elif session.lock.is_closing:
        session.lock.successors.append(command.consumer)
    else:
        out.outward.append(NotAccepted(command.consumer, SessionCannotBeLocked()))


def _take_over(
    state: State, subqueue: SessionSubQueue, command: AcceptSession, now_ms: int, out: Effects
) -> None:
    """Replace the holder whose lock this receiver presents; messages that the old holder has not
    settled stay in flight, for the new holder to settle (SES-27)."""
    sessions, consumer = subqueue.in_sessions, command.consumer
    lock = sessions.locks.get(command.takes_over)
    wanted = command.session_id
    if state.suspended:
        out.outward.append(NotAccepted(consumer, StoreUnavailable()))
    elif (
        lock is None
        or lock.is_closing
        or lock.until_ms <= now_ms
        or (wanted is not None and wanted != lock.session.session_id)
    ):
        out.outward.append(NotAccepted(consumer, SessionLockLost()))
    elif lock.consumer.is_exclusive or lock.consumer.consuming:
        out.outward.append(NotAccepted(consumer, SessionCannotBeLocked()))
    else:
        previous, number = lock.consumer, state.next_token
        state.next_token = number + 1
        until_ms = now_ms + state.spec.lock_duration_ms
        sessions.hand_on(lock, consumer, number, until_ms)
        out.outward.append(SessionLost(previous, SessionLockLost()))
        out.outward.append(Accepted(consumer, lock.session.session_id, until_ms, number))


def find_oldest(state: State, command: Command, now_ms: int, out: Effects) -> None:
    """Since when the head of the session that would be given next has waited (SES-20)."""
    assert isinstance(command, FindOldestSession)
    subqueue = state.main
    if not isinstance(subqueue, SessionSubQueue):
        out.outward.append(Failed(command.port, without_sessions(state)))
        return
    oldest = None if state.suspended else subqueue.in_sessions.oldest()
    head = None if oldest is None else subqueue.ready.copy_of(oldest.first())
    out.outward.append(Done(command.port, 0 if head is None else head.enqueued_ms))


def renew_session(state: State, command: Command, now_ms: int, out: Effects) -> None:
    """Extend a session's lock from now; a lost one is reported as 0."""
    assert isinstance(command, RenewSession)
    lock = held_lock(state, command.session_id, command.lock, now_ms)
    until_ms = 0
    if lock is not None:
        assert state.sessions is not None
        until_ms = now_ms + state.spec.lock_duration_ms
        state.sessions.renew(lock, until_ms)
    out.outward.append(Answered(command.port.renewed, [until_ms]))


def held_lock(state: State, session_id: str | None, number: int, now_ms: int) -> SessionLock | None:
    """The lock that proves that the caller holds the session (SES-12)."""
    return None if state.sessions is None else state.sessions.valid_lock(session_id, number, now_ms)


def lapse_sessions(state: State, allowance: Allowance, now_ms: int, out: Effects) -> None:
    """Sessions whose time is up are lost (SES-7)."""
    subqueue = state.main
    if not isinstance(subqueue, SessionSubQueue) or not allowance.left:
        return
    lapsed: list[SessionLock] = []
    is_ordered = subqueue.look_through(now_ms)
    for lock in subqueue.in_sessions.locks.values():
        if lock.until_ms <= now_ms:
            lapsed.append(lock)
        elif is_ordered:
            break
    for lock in lapsed:
        if not allowance.left:
            break
        _lapse(state, subqueue, lock, allowance, out)
    if lapsed:
        serve_sessions(state, subqueue, now_ms, out)


def _lapse(
    state: State, subqueue: SessionSubQueue, lock: SessionLock, allowance: Allowance, out: Effects
) -> None:
    """Messages that were delivered and not settled count as deliveries (SES-13).

    The session is lost at once, and free when all of them have been counted.
    """
    if not lock.is_closing:
        lock.is_closing = lock.is_lapsed = True
        allowance.spend(1)
        out.outward.append(SessionLost(lock.consumer, SessionLockLost()))
    unsettled = [held for held in lock.in_flight.values() if not held.busy]
    ended = unsettled[: allowance.left]
    allowance.spend(len(ended))
    for held in ended:
        held.busy = True
    if ended:
        end_delivery(state, subqueue, ended, None, out)
    subqueue.in_sessions.touched[lock.session] = None


def drop_locks(state: State, command: Command, now_ms: int, out: Effects) -> None:
    """Let every lock lapse now, of sessions and of messages alike."""
    allowance = Allowance()
    drop_message_locks(state, allowance, now_ms, out)
    if state.sessions is not None:
        for lock in state.sessions.locks.values():
            lock.until_ms = now_ms
    lapse_sessions(state, allowance, now_ms, out)
    state.is_behind = state.is_behind or not allowance.left


def without_sessions(state: State) -> BusError:
    """The error for a session request on an entity without sessions."""
    return InvalidOperation(
        f"'{state.spec.path}' does not require sessions; receive from it without one."
    )
