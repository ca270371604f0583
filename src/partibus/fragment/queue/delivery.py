"""Handing messages over: under a lock, or for good.

Owns what happens to messages that were chosen for a receiver: the lock, or their removal and then
their delivery (receive-and-delete), and the answer to a drain. `dispatch` and `sessions.dispatch`
choose who gets which message.
"""

from partibus.fragment.changes import Consumption
from partibus.fragment.commands import Consumer
from partibus.fragment.effects import Deliver, Drained, Effects
from partibus.fragment.message import Held
from partibus.fragment.queue.subqueue import SubQueue
from partibus.fragment.records import REMOVED, pack_sequences
from partibus.fragment.state import State
from partibus.store.record import Record


def hand_over(
    state: State,
    subqueue: SubQueue,
    consumer: Consumer,
    messages: list[Held],
    now_ms: int,
    out: Effects,
) -> None:
    """Give messages that are out of the tables to a receiver."""
    state.tally.outgoing += len(messages)
    if consumer.deletes:
        _consume(state, subqueue, consumer, messages, out)
        return
    lock(state, subqueue, messages, now_ms)
    out.outward.append(Deliver(consumer, messages, False))


def lock(state: State, subqueue: SubQueue, messages: list[Held], now_ms: int) -> None:
    """Lock messages for the entity's lock duration (LCK-1)."""
    until_ms = now_ms + state.spec.lock_duration_ms
    token = state.next_token
    for held in messages:
        subqueue.lock(held, token, until_ms)
        token += 1
    state.next_token = token


def removal(state: State, messages: list[Held]) -> Record:
    """The record that removes messages."""
    sequences = pack_sequences([held.sequence for held in messages])
    return Record(state.fragment_id, REMOVED, sequences, b"")


def _consume(
    state: State, subqueue: SubQueue, consumer: Consumer, messages: list[Held], out: Effects
) -> None:
    """Receive-and-delete: durably removed before it is sent, so never delivered twice (SEED-93)."""
    subqueue.leave(messages)
    consumer.consuming += len(messages)
    out.changes.append(Consumption([removal(state, messages)], consumer, messages))


def answer_drain(state: State, consumer: Consumer, out: Effects) -> None:
    """Answer a receiver that drains: no more messages come for its demand."""
    if state.is_behind and consumer.waiting:
        # Messages may wait behind expired ones, which are being removed.
        return
    if consumer.draining and not consumer.consuming:
        consumer.draining = False
        consumer.limit = consumer.sent
        out.outward.append(Drained(consumer))
