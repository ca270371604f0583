"""Receiving: waiting messages meet waiting receivers.

Owns demand, fairness between competing receivers, locking on delivery, and receive-and-delete.
`settlement` owns what happens to a message afterwards.
"""

from typing import Final

from partibus.domain.errors import BusError, SessionLockLost
from partibus.fragment.changes import Change, Consumption
from partibus.fragment.commands import Command, Consumer, Demand, Detach, Interest, Undelivered
from partibus.fragment.cursors.retention import keep
from partibus.fragment.effects import Available, Deliver, Effects
from partibus.fragment.message import Held
from partibus.fragment.outbox.departures import depart_waiting
from partibus.fragment.queue.delivery import answer_drain, hand_over
from partibus.fragment.queue.expiry import expire
from partibus.fragment.queue.subqueue import SubQueue
from partibus.fragment.sessions.dispatch import revoke, serve_sessions, session_subqueue
from partibus.fragment.state import State
from partibus.fragment.upkeep.slices import SLICE

UNREADABLE: Final = (
    "The session was released because its messages could not be read from the store. "
    "Accept the session again."
)


def demand(state: State, command: Command, now_ms: int, out: Effects) -> None:
    """A receiver may have more messages, or drains its demand."""
    assert isinstance(command, Demand)
    consumer = command.consumer
    subqueue = state.subqueues[consumer.subqueue]
    subqueue.demand(consumer, command.limit)
    consumer.draining = command.drain
    dispatch(state, subqueue, now_ms, out)
    answer_drain(state, consumer, out)


def interest(state: State, command: Command, now_ms: int, out: Effects) -> None:
    """A receiver wants to be notified when messages wait; that may be at once."""
    assert isinstance(command, Interest)
    subqueue = state.subqueues[command.consumer.subqueue]
    subqueue.interested[command.consumer] = None
    dispatch(state, subqueue, now_ms, out)


def detach(state: State, command: Command, now_ms: int, out: Effects) -> None:
    """A receiver leaves; its locks stay until they lapse (LCK-7), but not those of a session."""
    assert isinstance(command, Detach)
    command.consumer.gone = True
    subqueue = state.subqueues[command.consumer.subqueue]
    subqueue.forget(command.consumer)
    if subqueue.sessions is not None:
        serve_sessions(state, session_subqueue(subqueue), now_ms, out)


def dispatch(state: State, subqueue: SubQueue, now_ms: int, out: Effects) -> None:
    """Deliver waiting messages to waiting receivers, one each in turn when they compete."""
    if subqueue.sessions is not None:
        serve_sessions(state, session_subqueue(subqueue), now_ms, out)
        return
    if not len(subqueue.ready) or state.suspended:
        return
    if state.spec.forward_to and subqueue is state.main:
        depart_waiting(state, subqueue, out)
        return
    if subqueue.waiting:
        _serve(state, subqueue, now_ms, out)
    if subqueue.interested and len(subqueue.ready):
        for consumer in subqueue.interested:
            out.outward.append(Available(consumer))
        subqueue.interested.clear()


def _serve(state: State, subqueue: SubQueue, now_ms: int, out: Effects) -> None:
    given: dict[Consumer, list[Held]] = {}
    expired: list[Held] = []
    consumer = subqueue.next_consumer()
    while consumer is not None and len(subqueue.ready):
        share = consumer.limit - consumer.sent if len(subqueue.waiting) == 1 else 1
        taken = _take(state, subqueue, share, now_ms, expired)
        consumer.sent += len(taken)
        if consumer in given:
            given[consumer].extend(taken)
        else:
            given[consumer] = taken
        if state.is_behind and not taken:
            break
        subqueue.waiting.rotate(-1)
        consumer = subqueue.next_consumer()
    for receiver, messages in given.items():
        if messages:
            hand_over(state, subqueue, receiver, messages, now_ms, out)
    if expired:
        expire(state, expired, out)


def _take(
    state: State, subqueue: SubQueue, share: int, now_ms: int, expired: list[Held]
) -> list[Held]:
    """Up to `share` messages from the front; expired ones are set aside (TTL-4).

    When there are many of these, the rest is left to the ticks, which remove them.
    """
    ready = subqueue.ready
    is_main = subqueue is state.main
    taken: list[Held] = []
    while share > 0 and len(ready):
        held = ready.pop()
        # Dead letters do not expire (TTL-9).
        if is_main and 0 < held.expires_ms <= now_ms:
            if state.is_behind or len(expired) >= SLICE:
                state.is_behind = True
                ready.insert(held)
                break
            expired.append(held)
            continue
        taken.append(held)
        share -= 1
    return taken


def caught_up(state: State, now_ms: int, out: Effects) -> None:
    """Nothing that is due is left: deliver what waited behind it."""
    dispatch(state, state.main, now_ms, out)
    if not state.is_behind:
        answer_drains(state, out)


def answer_drains(state: State, out: Effects) -> None:
    """Answer the drains that had to wait."""
    for subqueue in state.subqueues:
        for consumer in list(subqueue.waiting):
            answer_drain(state, consumer, out)


def consumed(state: State, change: Change, now_ms: int, out: Effects) -> None:
    """The removal is durable: hand the messages over."""
    assert isinstance(change, Consumption)
    consumer = change.consumer
    subqueue = state.subqueues[consumer.subqueue]
    for held in change.messages:
        subqueue.let_go(held)
        state.size_bytes -= held.length
    consumer.consuming -= len(change.messages)
    keep(state, change.messages, out)
    out.outward.append(Deliver(consumer, change.messages, True))
    answer_drain(state, consumer, out)
    if subqueue.sessions is not None:
        subqueue.sessions.forget([held.sequence for held in change.messages])
        subqueue.sessions.touch_held_by(consumer)
        serve_sessions(state, session_subqueue(subqueue), now_ms, out)


def abort_consumption(state: State, change: Change, error: BusError, out: Effects) -> None:
    """The store failed: the messages wait again."""
    assert isinstance(change, Consumption)
    consumer = change.consumer
    subqueue = state.subqueues[consumer.subqueue]
    subqueue.stay(change.messages)
    consumer.consuming -= len(change.messages)
    _take_back(subqueue, consumer, len(change.messages))
    if subqueue.sessions is not None:
        subqueue.sessions.touch_held_by(consumer)
    answer_drain(state, consumer, out)


def undelivered(state: State, command: Command, now_ms: int, out: Effects) -> None:
    """Take back what could not be handed over.

    A damaged message is set aside and the others are delivered. A store that cannot read at all
    would only fail again: nothing is delivered until the broker submits `Resume`.
    """
    assert isinstance(command, Undelivered)
    consumer = command.consumer
    subqueue = state.subqueues[consumer.subqueue]
    if subqueue.sessions is not None and not command.damaged:
        # Later messages may have been delivered, so only a new lock keeps the order.
        revoke(session_subqueue(subqueue), consumer, SessionLockLost(UNREADABLE), out)
    for held in command.messages:
        if held.token not in subqueue.locks or held.busy:
            continue  # settled meanwhile, or about to be: that decides where it goes
        subqueue.unlock(held)
        if command.damaged:
            subqueue.leaving[held.sequence] = held
        else:
            subqueue.put_back(held)
    _take_back(subqueue, consumer, len(command.messages))
    if command.damaged:
        dispatch(state, subqueue, now_ms, out)
    else:
        state.suspended = True


def _take_back(subqueue: SubQueue, consumer: Consumer, count: int) -> None:
    """Messages did not reach the receiver; its demand is restored."""
    consumer.sent -= count
    if not consumer.gone:
        subqueue.demand(consumer, consumer.limit)
