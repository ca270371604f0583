"""Leaving: messages enter the outbox of their fragment instead of a subqueue.

Owns the numbering of departures and their record, for messages that wait (an entity that forwards
has no receivers, FWD-1), for arrivals, and for dead letters that the entity forwards (FWD-5).
`transfers` handles the parcels afterwards; a courier carries them.
"""

from typing import Final

from partibus.domain.errors import BusError
from partibus.fragment.changes import Change
from partibus.fragment.commands import SubQueueType
from partibus.fragment.effects import Collected, Effects
from partibus.fragment.message import Held
from partibus.fragment.outbox.changes import Departure
from partibus.fragment.outbox.records import departed as departed_record
from partibus.fragment.outbox.state import Parcel, Purpose
from partibus.fragment.queue.subqueue import SubQueue
from partibus.fragment.sessions.state import Session
from partibus.fragment.sessions.subqueue import SessionSubQueue
from partibus.fragment.state import State
from partibus.store.record import Record

DEPARTURE_MESSAGES_MAX: Final = 1000
"""Waiting messages that leave in one change: a deep backlog must not block the turn."""


def arrivals_depart(state: State) -> bool:
    """Whether new messages enter the outbox in the same entry.

    Only when all earlier messages are in the outbox, so that the order is kept.
    """
    outbox = state.outbox
    if not state.spec.forward_to:
        outbox.is_direct = False
    elif not outbox.is_direct:
        outbox.is_direct = (
            not len(state.main.ready)
            and (state.sessions is None or not state.sessions.locks)
            and state.next_sequence == state.next_sequence_durable
        )
    return outbox.is_direct


def number_departure(
    state: State, sequences: list[int], purpose: Purpose, path: str
) -> tuple[int, Record]:
    """The first of new outbox numbers for these messages, and the record of their departure."""
    first = state.outbox.next_number
    state.outbox.next_number = first + len(sequences)
    return first, departed_record(state.fragment_id, first, purpose, path, sequences)


def depart_waiting(state: State, subqueue: SubQueue, out: Effects) -> None:
    """Prepare the departure of what waits in a subqueue, from the front."""
    forwards_main = subqueue.subqueue is SubQueueType.MAIN
    purpose = Purpose.FORWARD if forwards_main else Purpose.DEAD_LETTER
    spec = state.spec
    path = spec.forward_to if forwards_main else spec.forward_dead_letters_to
    if isinstance(subqueue, SessionSubQueue):
        messages = _take_from_sessions(subqueue)
    else:
        count = min(len(subqueue.ready), DEPARTURE_MESSAGES_MAX)
        messages = [subqueue.ready.pop() for _ in range(count)]
    if messages:
        subqueue.leave(messages)
        sequences = [held.sequence for held in messages]
        first, record = number_departure(state, sequences, purpose, path)
        out.changes.append(Departure([record], subqueue.subqueue, messages, first, purpose, path))


def _take_from_sessions(subqueue: SessionSubQueue) -> list[Held]:
    """The waiting messages of free sessions, from the front.

    A held session waits for its messages in flight, which come before the rest (FWD-4).
    """
    sessions = subqueue.in_sessions
    free: list[Session] = []
    for held in subqueue.ready.copies(0):
        if len(free) >= DEPARTURE_MESSAGES_MAX:
            break
        session = sessions.of(held.sequence)
        if session.lock is None:
            free.append(session)
    # In the order of the subqueue, so each is the first of its session when it is reached.
    return [subqueue.waiting_in_sessions.take_first(session) for session in free]


def departed(state: State, change: Change, now_ms: int, out: Effects) -> None:
    """The messages are in the outbox."""
    assert isinstance(change, Departure)
    subqueue = state.subqueues[change.subqueue]
    for held in change.messages:
        subqueue.let_go(held)
    enter(state, change.messages, change.first_number, change.purpose, change.path, out)
    if change.subqueue is SubQueueType.MAIN and state.spec.forward_to and not state.suspended:
        depart_waiting(state, subqueue, out)


def enter(
    state: State, messages: list[Held], first_number: int, purpose: Purpose, path: str, out: Effects
) -> None:
    """Put messages that are out of the tables into the outbox and notify the courier."""
    outbox = state.outbox
    number = first_number
    for held in messages:
        outbox.enter(number, held, purpose, path)
        number += 1
    outbox.next_number_durable = number
    serve_collector(state, out)


def abort_departure(state: State, change: Change, error: BusError, out: Effects) -> None:
    """The store failed: the messages wait where they were."""
    assert isinstance(change, Departure)
    take_outbox_numbers_back(state, change.first_number)
    state.subqueues[change.subqueue].stay(change.messages)


def take_outbox_numbers_back(state: State, first_number: int) -> None:
    """Numbers are free again, since everything that came later failed too."""
    state.outbox.next_number = min(state.outbox.next_number, first_number)


def serve_collector(state: State, out: Effects) -> None:
    """Answer a courier that is waiting for parcels."""
    outbox = state.outbox
    command = outbox.collector
    if command is None or state.suspended:
        return
    parcels: list[Parcel] = []
    byte_count = 0
    for parcel in outbox.copies(command.from_number):
        byte_count += parcel.held.length
        if parcels and (
            len(parcels) >= command.message_count_max or byte_count > command.byte_count_max
        ):
            break
        parcels.append(parcel)
    if parcels:
        outbox.collector = None
        out.outward.append(Collected(command.port, parcels))
