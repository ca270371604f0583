"""The courier's side of the outbox: parcels are collected, and leave or come back.

Owns what a courier asks of the fragment whose parcels it carries, and the entry of messages that
are sent to another entity through this one. Each decision about a parcel is durable before the
courier learns of it, and made once.
"""

from partibus.domain.errors import BusError, QuotaExceeded
from partibus.fragment.changes import Change
from partibus.fragment.commands import Command, SubQueueType
from partibus.fragment.effects import Collected, Confirmed, Done, Effects, Failed, Refused
from partibus.fragment.message import NEVER_MS, Held
from partibus.fragment.outbox.changes import (
    HandedOver,
    ParcelsReturned,
    Redirection,
    TransferArrival,
)
from partibus.fragment.outbox.commands import (
    Collect,
    Fetch,
    Forwarded,
    ForwardWaiting,
    Redirect,
    ReturnParcels,
    Transfer,
)
from partibus.fragment.outbox.departures import (
    depart_waiting,
    enter,
    number_departure,
    serve_collector,
    take_outbox_numbers_back,
)
from partibus.fragment.outbox.records import handed_over as handed_over_record
from partibus.fragment.outbox.records import parcels_returned as returned_record
from partibus.fragment.outbox.records import redirected as redirected_record
from partibus.fragment.outbox.records import transferred as transferred_record
from partibus.fragment.outbox.state import TRANSFER_SEQUENCES, Parcel, Purpose
from partibus.fragment.queue.arrivals import full
from partibus.fragment.queue.dispatch import dispatch
from partibus.fragment.stages.departures import depart_published
from partibus.fragment.state import State

# --- what the courier asks -----------------------------------------------------------------------


def collect(state: State, command: Command, now_ms: int, out: Effects) -> None:
    """Hand parcels to the courier, now or when there are any."""
    assert isinstance(command, Collect)
    state.outbox.collector = command
    serve_collector(state, out)
    depart_published(state, out)


def fetch(state: State, command: Command, now_ms: int, out: Effects) -> None:
    """Hand certain parcels to the courier again."""
    assert isinstance(command, Fetch)
    found = [parcel for parcel in map(state.outbox.copy_of, command.numbers) if parcel is not None]
    out.outward.append(Collected(command.port, found))


def forward_waiting(state: State, command: Command, now_ms: int, out: Effects) -> None:
    """Forward waiting messages as the entity's properties now say."""
    assert isinstance(command, ForwardWaiting)
    dispatch(state, state.main, now_ms, out)
    if command.with_dead_letters and state.spec.forward_dead_letters_to:
        while len(state.dead.ready):
            depart_waiting(state, state.dead, out)


def forwarded(state: State, command: Command, now_ms: int, out: Effects) -> None:
    """Parcels belong to the destination: prepare their removal."""
    assert isinstance(command, Forwarded)
    numbers = _mark_settling(state, command.numbers)
    record = handed_over_record(state.fragment_id, numbers)
    out.changes.append(HandedOver([record] if numbers else [], numbers, command.port))


def return_parcels(state: State, command: Command, now_ms: int, out: Effects) -> None:
    """Prepare the return of parcels to a subqueue.

    A message that cannot be forwarded becomes a dead letter like any other, and goes where the
    entity forwards those; a dead letter that cannot be forwarded stays (FWD-7).
    """
    assert isinstance(command, ReturnParcels)
    numbers = _mark_settling(state, command.numbers)
    record = returned_record(state.fragment_id, command.subqueue, command.overlay, numbers)
    records = [record] if numbers else []
    change = ParcelsReturned(records, numbers, command.subqueue, command.overlay, command.port)
    path = state.spec.forward_dead_letters_to
    if numbers and path and command.subqueue is SubQueueType.DEAD_LETTER:
        parcels = [parcel for parcel in map(state.outbox.copy_of, numbers) if parcel is not None]
        if all(parcel.purpose is Purpose.FORWARD for parcel in parcels):
            sequences = [parcel.held.sequence for parcel in parcels]
            first, departure = number_departure(state, sequences, Purpose.DEAD_LETTER, path)
            change.first_number, change.onward = first, path
            change.records.append(departure)
    out.changes.append(change)


def redirect(state: State, command: Command, now_ms: int, out: Effects) -> None:
    """Prepare new numbers and a new path for parcels."""
    assert isinstance(command, Redirect)
    numbers = _mark_settling(state, command.numbers)
    first = state.outbox.next_number
    state.outbox.next_number = first + len(numbers)
    record = redirected_record(state.fragment_id, first, command.path, numbers)
    records = [record] if numbers else []
    out.changes.append(Redirection(records, numbers, first, command.path, command.port))


def _mark_settling(state: State, numbers: list[int]) -> list[int]:
    """Those of the parcels that are there and not yet decided about."""
    outbox = state.outbox
    found = [n for n in numbers if n in outbox.table and n not in outbox.settling]
    outbox.settling.update(found)
    return found


# --- messages sent through this entity
# -----------------------------------------------------------


def transfer(state: State, command: Command, now_ms: int, out: Effects) -> None:
    """Prepare the entry of messages for another entity."""
    assert isinstance(command, Transfer)
    refusal = _no_room(state, command)
    if refusal is not None:
        out.outward.append(Refused(command.port, command.requests, refusal))
        return
    number = first = state.outbox.next_number
    records = []
    for message in command.messages:
        record = transferred_record(state.fragment_id, number, now_ms, command.path, message.body)
        records.append(record)
        number += 1
    state.outbox.next_number = number
    state.size_bytes += command.byte_count
    out.changes.append(TransferArrival(records, command, first, now_ms))


def _no_room(state: State, command: Transfer) -> BusError | None:
    bytes_max = state.spec.size_bytes_max
    if bytes_max and state.size_bytes + command.byte_count > bytes_max:
        return full(state)
    if not state.outbox.has_room_for(Purpose.TRANSFER, command.path):
        return QuotaExceeded(
            f"Messages for too many entities wait in '{state.spec.path}'. Send again later."
        )
    return None


def transfer_arrived(state: State, change: Change, now_ms: int, out: Effects) -> None:
    """The messages are durable: the courier may have them."""
    assert isinstance(change, TransferArrival)
    command = change.command
    messages: list[Held] = []
    number = change.first_number
    for record in change.records:
        sequence = TRANSFER_SEQUENCES | number
        length = len(record.body)
        messages.append(
            Held(sequence, record.position, length, change.enqueued_ms, NEVER_MS, 0, None)
        )
        number += 1
    enter(state, messages, change.first_number, Purpose.TRANSFER, command.path, out)
    first_sequence = TRANSFER_SEQUENCES | change.first_number
    out.outward.append(Confirmed(command.port, command.requests, first_sequence))


def abort_transfer(state: State, change: Change, error: BusError, out: Effects) -> None:
    """The store failed: nothing was sent."""
    assert isinstance(change, TransferArrival)
    take_outbox_numbers_back(state, change.first_number)
    state.size_bytes -= change.command.byte_count
    out.outward.append(Refused(change.command.port, change.command.requests, error))


# --- when it is durable --------------------------------------------------------------------------


def _leave(state: State, numbers: list[int]) -> list[Parcel]:
    """Take parcels whose destination is decided out of the outbox."""
    state.outbox.settling.difference_update(numbers)
    return [parcel for parcel in map(state.outbox.take, numbers) if parcel is not None]


def handed_over(state: State, change: Change, now_ms: int, out: Effects) -> None:
    """The parcels are gone."""
    assert isinstance(change, HandedOver)
    parcels = _leave(state, change.numbers)
    if state.sessions is not None:
        state.sessions.forget([parcel.held.sequence for parcel in parcels])
    for parcel in parcels:
        state.size_bytes -= parcel.held.length
        out.released.append(parcel.held)
    out.outward.append(Done(change.port, len(change.numbers)))
    depart_published(state, out)


def parcels_returned(state: State, change: Change, now_ms: int, out: Effects) -> None:
    """The parcels are messages of a subqueue again, or dead letters on their way."""
    assert isinstance(change, ParcelsReturned)
    messages = [parcel.held for parcel in _leave(state, change.numbers)]
    for held in messages:
        held.lay_over(change.overlay)
    if state.sessions is not None and change.subqueue is not SubQueueType.MAIN:
        # While under way a message still belongs to its session; dead letters belong to none.
        state.sessions.forget([held.sequence for held in messages])
    if change.first_number:
        purpose = Purpose.DEAD_LETTER
        enter(state, messages, change.first_number, purpose, change.onward, out)
    else:
        subqueue = state.subqueues[change.subqueue]
        for held in messages:
            subqueue.ready.insert(held)
        dispatch(state, subqueue, now_ms, out)
    out.outward.append(Done(change.port, len(messages)))
    depart_published(state, out)


def redirected(state: State, change: Change, now_ms: int, out: Effects) -> None:
    """The parcels have new numbers."""
    assert isinstance(change, Redirection)
    number = change.first_number
    for parcel in _leave(state, change.numbers):
        state.outbox.enter(number, parcel.held, parcel.purpose, change.path)
        number += 1
    state.outbox.next_number_durable = number
    out.outward.append(Done(change.port, len(change.numbers)))
    serve_collector(state, out)


# --- when the store failed -----------------------------------------------------------------------


def abort_decision(state: State, change: Change, error: BusError, out: Effects) -> None:
    """The parcels stay where they are, undecided."""
    assert isinstance(change, HandedOver | ParcelsReturned | Redirection)
    state.outbox.settling.difference_update(change.numbers)
    if not isinstance(change, HandedOver) and change.first_number:
        take_outbox_numbers_back(state, change.first_number)
    out.outward.append(Failed(change.port, error))
