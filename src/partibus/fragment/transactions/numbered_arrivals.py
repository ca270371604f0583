"""Messages that are scheduled in a transaction, under numbers reserved before its end.

Owns the reserved numbers and the arrival of their messages (SCH-7). A reserved number is not used
otherwise while this process lives; one from an earlier incarnation is void, since another message
may have it now. Called by the machine; afterwards they belong to `scheduling`.
"""

from dataclasses import dataclass
from typing import Final

from partibus.domain.errors import BusError, TransactionRolledBack
from partibus.fragment.changes import Change, DuplicateCheck
from partibus.fragment.commands import Command, Enqueue
from partibus.fragment.effects import Confirmed, Effect, Effects, Refused
from partibus.fragment.message import Held, NewMessage
from partibus.fragment.queue.arrivals import full, ttl_word
from partibus.fragment.queue.duplicates import drop_duplicates, identified, let_go, remember
from partibus.fragment.records import (
    NO_TTL,
    SCHEDULED_LONG,
    SCHEDULED_LONG_META,
    SCHEDULED_META,
    SCHEDULED_UNDER,
)
from partibus.fragment.sessions.records import in_sessions
from partibus.fragment.state import State
from partibus.fragment.transactions.commands import EnqueueNumbered, NumbersPort, ReserveNumbers
from partibus.store.record import Record

INCARNATION_BITS: Final = 32
"""Bits of a lock's number below those that differ between incarnations of a worker."""


@dataclass(eq=False)
class Reserved(Effect):
    """Numbers were reserved."""

    port: NumbersPort
    first_sequence: int
    incarnation: int

    def carry_out(self) -> None:
        self.port.reserved(self.first_sequence, self.incarnation)


@dataclass(eq=False)
class NumberedArrival(Change):
    """Scheduled messages, each under its number."""

    command: EnqueueNumbered
    messages: list[NewMessage]
    """Those that are not duplicates."""
    held: list[Held]
    """The same as they will be kept; their records come first in `records`, in their order."""
    byte_count: int
    check: DuplicateCheck | None


def incarnation_of(state: State) -> int:
    """The incarnation of the process that runs the fragment, taken from its lock numbers."""
    return state.next_token >> INCARNATION_BITS


def reserve_numbers(state: State, command: Command, now_ms: int, out: Effects) -> None:
    """Reserve the next numbers; other arrivals do not get them."""
    assert isinstance(command, ReserveNumbers)
    first = state.next_sequence
    state.next_sequence = state.reserved_until = first + command.count
    out.outward.append(Reserved(command.port, first, incarnation_of(state)))


def enqueue_numbered(state: State, command: Command, now_ms: int, out: Effects) -> None:
    """Prepare the records of messages with reserved numbers."""
    assert isinstance(command, EnqueueNumbered)
    if command.incarnation != incarnation_of(state):
        error = TransactionRolledBack(
            "The process that runs the fragment was restarted, and the sequence numbers that "
            "it had given to scheduled messages are void. Schedule them again."
        )
        out.outward.append(Refused(command.port, [0], error))
        return
    kept, numbers, byte_count, check = _sifted(state, command, now_ms)
    limit = state.spec.size_bytes_max
    if limit and state.size_bytes + byte_count > limit:
        if check is not None:
            let_go(state, check)
        out.outward.append(Refused(command.port, [0], full(state)))
        return
    held = [_held(message, number, now_ms) for message, number in zip(kept, numbers, strict=True)]
    records = [_record(state, one, body) for one, body in zip(held, kept, strict=True)]
    if check is not None and check.identities:
        records.append(identified(state, check))
    if state.sessions is not None:
        for message, number in zip(kept, numbers, strict=True):
            records.append(in_sessions(state.fragment_id, number, [message]))
    state.size_bytes += byte_count
    out.changes.append(NumberedArrival(records, command, kept, held, byte_count, check))


def _sifted(
    state: State, command: EnqueueNumbered, now_ms: int
) -> tuple[list[NewMessage], list[int], int, DuplicateCheck | None]:
    """The messages that are not duplicates, with numbers and bytes; a duplicate's number stays
    unused."""
    first, count = command.first_sequence, len(command.messages)
    if not state.spec.duplicate_window_ms:
        return command.messages, list(range(first, first + count)), command.byte_count, None
    whole = Enqueue(command.port, command.messages, [0], command.byte_count)
    rest, check = drop_duplicates(state, whole, now_ms)
    dropped = frozenset(check.dropped)
    numbers = [first + place for place in range(count) if place not in dropped]
    return rest.messages, numbers, rest.byte_count, check


def _held(message: NewMessage, number: int, now_ms: int) -> Held:
    """A past due time, or none, means the next moment: activation follows by itself."""
    due_ms = message.scheduled_ms or now_ms
    ttl = ttl_word(message.ttl_ms)
    return Held(number, 0, len(message.body), now_ms, due_ms, ttl, None)


def _record(state: State, held: Held, message: NewMessage) -> Record:
    fields = (held.sequence, held.enqueued_ms, held.expires_ms, held.delivery_count)
    if held.delivery_count > NO_TTL:
        meta = SCHEDULED_LONG_META.pack(*fields)
        return Record(state.fragment_id, SCHEDULED_LONG, meta, message.body)
    meta = SCHEDULED_META.pack(*fields)
    return Record(state.fragment_id, SCHEDULED_UNDER, meta, message.body)


def numbered_arrived(state: State, change: Change, now_ms: int, out: Effects) -> None:
    """The messages are durable: they wait for their time."""
    assert isinstance(change, NumberedArrival)
    command = change.command
    state.tally.incoming += len(change.held)
    if state.sessions is not None:
        for held, message in zip(change.held, change.messages, strict=True):
            state.sessions.enter(held.sequence, message.session_id or "")
    for record, held in zip(change.records, change.held, strict=False):
        held.position = record.position
        insert_numbered(state, held)
    if change.check is not None:
        remember(state, change.check, now_ms, out)
    out.outward.append(Confirmed(command.port, [0], command.first_sequence))


def insert_numbered(state: State, held: Held) -> None:
    """Insert a scheduled message at its number; later ones may already be there."""
    state.scheduled.insert(held)
    if held.sequence >= state.next_sequence_durable:
        state.next_sequence_durable = held.sequence + 1


def abort_numbered(state: State, change: Change, error: BusError, out: Effects) -> None:
    """The transaction failed: the numbers are never used."""
    assert isinstance(change, NumberedArrival)
    state.size_bytes -= change.byte_count
    if change.check is not None:
        let_go(state, change.check)
    out.outward.append(Refused(change.command.port, [0], error))


def replay_numbered(state: State, kind: int, meta: bytes, position: int, length: int) -> None:
    """A scheduled message of the log whose number may be older than its record."""
    fields = SCHEDULED_LONG_META if kind == SCHEDULED_LONG else SCHEDULED_META
    sequence, enqueued_ms, due_ms, ttl = fields.unpack(meta)
    insert_numbered(state, Held(sequence, position, length, enqueued_ms, due_ms, ttl, None))
    if sequence >= state.next_sequence:
        state.next_sequence = sequence + 1
