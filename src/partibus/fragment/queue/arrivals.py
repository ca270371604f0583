"""Sending: messages come in, are numbered, and wait or are scheduled.

Owns sequence numbers, time to live at entry and the size quota. Nothing is visible, and
nothing is confirmed, before the records are durable.
"""

from partibus.domain.errors import BusError, QuotaExceeded
from partibus.fragment.changes import Arrival, Change, DuplicateCheck
from partibus.fragment.commands import Command, Enqueue
from partibus.fragment.effects import Confirmed, Effects, Refused
from partibus.fragment.message import NEVER_MS, Held, NewMessage
from partibus.fragment.outbox.departures import (
    arrivals_depart,
    enter,
    number_departure,
    take_outbox_numbers_back,
)
from partibus.fragment.outbox.fencing import is_own, mark_taken, without_taken
from partibus.fragment.outbox.state import Purpose
from partibus.fragment.queue.dispatch import dispatch
from partibus.fragment.queue.duplicates import drop_duplicates, identified, let_go, remember
from partibus.fragment.records import (
    ENQUEUED,
    ENQUEUED_META,
    NO_TTL,
    SCHEDULED,
    SCHEDULED_LONG,
    SCHEDULED_LONG_META,
    SCHEDULED_META,
)
from partibus.fragment.sessions.records import in_sessions
from partibus.fragment.state import State
from partibus.store.record import Record


def enqueue(state: State, command: Command, now_ms: int, out: Effects) -> None:
    """Number the messages and prepare their records."""
    assert isinstance(command, Enqueue)
    spec = state.spec
    check: DuplicateCheck | None = None
    origin = command.origin
    if origin is not None:
        fresh = without_taken(state, command, origin, out)
        if fresh is None:
            return
        command = fresh
    if spec.duplicate_window_ms:
        command, check = drop_duplicates(state, command, now_ms)
    is_full = spec.size_bytes_max and state.size_bytes + command.byte_count > spec.size_bytes_max
    if is_full and not is_own(state, origin):
        if check is not None:
            let_go(state, check)
        out.outward.append(Refused(command.port, command.requests, full(state)))
        return
    first = sequence = state.next_sequence
    records: list[Record] = []
    expiries: list[int] = []
    fragment_id = state.fragment_id
    pack = ENQUEUED_META.pack
    for message in command.messages:
        if message.scheduled_ms > now_ms:
            records.append(scheduled(fragment_id, sequence, message, now_ms))
            expiries.append(message.scheduled_ms)
        else:
            # A time in the past means now (SCH-6).
            message.scheduled_ms = 0
            expires_ms = expiry_ms(state, message.ttl_ms, now_ms)
            expiries.append(expires_ms)
            meta = pack(sequence, now_ms, expires_ms)
            records.append(Record(fragment_id, ENQUEUED, meta, message.body))
        sequence += 1
    if check is not None and check.identities:
        records.append(identified(state, check))
    if state.sessions is not None and command.messages:
        records.append(in_sessions(fragment_id, first, command.messages))
    change = Arrival(records, command, first, now_ms, expiries, check)
    if arrivals_depart(state):
        _depart(state, change)
    if command.origin is not None:
        change.mark, record = mark_taken(state, command.origin)
        if record is not None:
            records.append(record)
    state.next_sequence = sequence
    state.size_bytes += command.byte_count
    out.changes.append(change)


def _depart(state: State, change: Arrival) -> None:
    """Messages that are not scheduled enter the outbox in the same entry."""
    first = change.first_sequence
    messages = change.command.messages
    sequences = [first + at for at, message in enumerate(messages) if not message.scheduled_ms]
    if sequences:
        change.onward = path = state.spec.forward_to
        change.first_number, record = number_departure(state, sequences, Purpose.FORWARD, path)
        change.records.append(record)


def scheduled(fragment_id: int, sequence: int, message: NewMessage, now_ms: int) -> Record:
    """The record of a message that becomes active later."""
    word = ttl_word(message.ttl_ms)
    fields = (sequence, now_ms, message.scheduled_ms, word)
    if word > NO_TTL:
        meta = SCHEDULED_LONG_META.pack(*fields)
        return Record(fragment_id, SCHEDULED_LONG, meta, message.body)
    return Record(fragment_id, SCHEDULED, SCHEDULED_META.pack(*fields), message.body)


def ttl_word(ttl_ms: int) -> int:
    """A time to live as kept with a scheduled message, in up to 48 bits.

    The highest 32-bit value means none, so a time to live of that length gets 1 ms more.
    """
    if ttl_ms < 0:
        return NO_TTL
    return ttl_ms if ttl_ms != NO_TTL else NO_TTL + 1


def expiry_ms(state: State, ttl_ms: int, now_ms: int) -> int:
    """The entity's default applies when the sender set none, and is the maximum (TTL-2)."""
    default_ms = state.spec.default_ttl_ms
    if ttl_ms < 0 or (default_ms and ttl_ms > default_ms):
        ttl_ms = default_ms if default_ms else -1
    return NEVER_MS if ttl_ms < 0 else now_ms + ttl_ms


def full(state: State) -> QuotaExceeded:
    """The error for messages that the entity has no room for."""
    return QuotaExceeded(
        f"The maximum entity size has been reached for '{state.spec.path}': "
        f"{state.size_bytes} of {state.spec.size_bytes_max} bytes are used. "
        "Receive or purge messages, or raise the entity's maximum size."
    )


def take_numbers_back(state: State, first_sequence: int) -> None:
    """Numbers from here on are free again, except those set aside for a transaction."""
    first_free = max(first_sequence, state.reserved_until)
    state.next_sequence = min(state.next_sequence, first_free)


def arrived(state: State, change: Change, now_ms: int, out: Effects) -> None:
    """The messages are durable: make them visible, and confirm them."""
    assert isinstance(change, Arrival)
    push = state.main.ready.push
    sequence = change.first_sequence
    enqueued_ms = change.enqueued_ms
    command = change.command
    if state.sessions is not None:
        for place, message in enumerate(command.messages):
            state.sessions.enter(sequence + place, message.session_id or "")
    leaving: list[Held] = []
    # Identities, sessions and marks may have records after those of the messages.
    for record, message, expires_ms in zip(
        change.records, command.messages, change.expires_ms, strict=False
    ):
        length = len(record.body)
        if message.scheduled_ms:
            ttl = ttl_word(message.ttl_ms)
            state.scheduled.push(sequence, record.position, length, enqueued_ms, expires_ms, ttl)
        elif change.first_number:
            position = record.position
            leaving.append(Held(sequence, position, length, enqueued_ms, expires_ms, 0, None))
        else:
            push(sequence, record.position, length, enqueued_ms, expires_ms, 0)
        sequence += 1
    state.next_sequence_durable = sequence
    state.tally.incoming += len(command.messages)
    if command.origin is not None:
        assert change.mark is not None
        state.marks.set(command.origin.fragment_id, change.mark)
    if leaving:
        enter(state, leaving, change.first_number, Purpose.FORWARD, change.onward, out)
    check = change.check
    if check is None:
        out.outward.append(Confirmed(command.port, command.requests, change.first_sequence))
    else:
        remember(state, check, now_ms, out)
        confirmed = Confirmed(command.port, command.requests, change.first_sequence, check.dropped)
        out.outward.append(confirmed)
    dispatch(state, state.main, now_ms, out)


def abort_arrival(state: State, change: Change, error: BusError, out: Effects) -> None:
    """The store failed: the numbers are free again, since everything that came later failed too."""
    assert isinstance(change, Arrival)
    take_numbers_back(state, change.first_sequence)
    state.size_bytes -= change.command.byte_count
    if change.first_number:
        take_outbox_numbers_back(state, change.first_number)
    if change.command.origin is not None:
        state.marks.take_back(change.command.origin.fragment_id)
    if change.check is not None:
        let_go(state, change.check)
    out.outward.append(Refused(change.command.port, change.command.requests, error))
