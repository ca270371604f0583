"""What a destination takes from the outboxes of others, exactly once.

Owns the decision about messages that come with an origin: those up to the mark were taken before
and are dropped, and the origin gets a confirmation. `Fence` closes numbers above the mark, for an
origin that must be certain that they were not taken and never will be: parcels that arrive later
are refused. Called by `arrivals`.
"""

from partibus.domain.errors import BusError, ParcelSealed
from partibus.fragment.changes import Change
from partibus.fragment.commands import Command, Enqueue
from partibus.fragment.effects import Done, Effects, Failed, Refused
from partibus.fragment.outbox.changes import Fencing
from partibus.fragment.outbox.commands import Fence
from partibus.fragment.outbox.marks import Mark, Origin
from partibus.fragment.outbox.records import fenced as fenced_record
from partibus.fragment.outbox.records import taken
from partibus.fragment.state import State
from partibus.store.record import Record


def without_taken(state: State, command: Enqueue, origin: Origin, out: Effects) -> Enqueue | None:
    """The command without the messages that were taken before; None if the origin has had one of
    the others fenced, so that all are refused."""
    mark = state.marks.of(origin.fragment_id)
    numbers = origin.numbers
    if numbers[0] > mark.taken:
        fresh = command
    else:
        messages = [
            message
            for message, number in zip(command.messages, numbers, strict=True)
            if number > mark.taken
        ]
        byte_count = sum([len(message.body) for message in messages])
        fresh = Enqueue(command.port, messages, command.requests, byte_count, origin)
    if any(mark.taken < number <= mark.fenced for number in numbers):
        out.outward.append(Refused(command.port, command.requests, ParcelSealed()))
        return None
    return fresh


def is_own(state: State, origin: Origin | None) -> bool:
    """Whether messages come from the fragment's own outbox: their size is already counted."""
    return origin is not None and origin.fragment_id == state.fragment_id


def mark_taken(state: State, origin: Origin) -> tuple[Mark, Record | None]:
    """The mark after these messages, and its record when it advances."""
    number = origin.numbers[-1]
    mark = state.marks.of(origin.fragment_id)
    if number <= mark.taken:
        return mark, None
    mark = Mark(number, 0)
    state.marks.prepare(origin.fragment_id, mark)
    return mark, taken(state.fragment_id, origin.fragment_id, number)


def fence(state: State, command: Command, now_ms: int, out: Effects) -> None:
    """Prepare to close numbers; answered after everything that came before it."""
    assert isinstance(command, Fence)
    mark = state.marks.of(command.origin_id)
    records: list[Record] = []
    if command.number > max(mark.taken, mark.fenced):
        mark = Mark(mark.taken, command.number)
        state.marks.prepare(command.origin_id, mark)
        records.append(fenced_record(state.fragment_id, command.origin_id, command.number))
    out.changes.append(Fencing(records, command.origin_id, mark, command.port))


def fenced(state: State, change: Change, now_ms: int, out: Effects) -> None:
    """The numbers are closed for good."""
    assert isinstance(change, Fencing)
    state.marks.set(change.origin_id, change.mark)
    out.outward.append(Done(change.port, change.mark.taken))


def abort_fence(state: State, change: Change, error: BusError, out: Effects) -> None:
    """The store failed: nothing was fenced, and nothing before it was taken."""
    assert isinstance(change, Fencing)
    state.marks.take_back(change.origin_id)
    out.outward.append(Failed(change.port, error))
