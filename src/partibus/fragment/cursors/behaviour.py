"""Cursors and range reads: messages stay readable after receivers have settled them.

Owns placing and dropping cursors, the trimming of what is kept for them, and the reading of
everything that has arrived in the order of its numbers, whatever its state now. Nothing here
delivers a message to a receiver or removes one.
"""

import struct
from collections.abc import Iterator
from heapq import merge
from typing import Final

from partibus.domain.errors import BusError, EntityNotFound, QuotaExceeded, StoreUnavailable
from partibus.fragment.changes import Change
from partibus.fragment.commands import Command, SubQueueType
from partibus.fragment.cursors import commands
from partibus.fragment.cursors.changes import CursorDrop, CursorPlacement, Trim
from partibus.fragment.cursors.retention import CURSORS_MAX, Retention, decode_cursor, encode_cursor
from partibus.fragment.effects import Answered, Done, Effects, Failed, Found
from partibus.fragment.message import Held
from partibus.fragment.queue.subqueue import SubQueue
from partibus.fragment.queue.table import MessageTable
from partibus.fragment.records import CURSOR_DROPPED, CURSOR_PLACED, RETENTION_TRIMMED
from partibus.fragment.state import State
from partibus.fragment.upkeep.slices import Allowance
from partibus.store.record import Record

KINDS: Final[tuple[int, ...]] = (CURSOR_PLACED, CURSOR_DROPPED, RETENTION_TRIMMED)
_FLOOR: Final = struct.Struct("<Q")


# --- cursors --------------------------------------------------------------------------------------


def place_cursor(state: State, command: Command, now_ms: int, out: Effects) -> None:
    """Prepare a new cursor or a move."""
    assert isinstance(command, commands.PlaceCursor)
    retention = _retention(state)
    if command.name not in retention.cursors and len(retention.cursors) >= CURSORS_MAX:
        error = QuotaExceeded(
            f"'{state.spec.path}' has {CURSORS_MAX} cursors, the maximum; drop one with "
            "`partibus cursor drop`."
        )
        out.outward.append(Failed(command.port, error))
        return
    position = min(command.position, state.next_sequence_durable)
    cursor = commands.CursorSummary(
        command.name, position, command.retain_ms, command.retain_bytes, now_ms
    )
    record = Record(state.fragment_id, CURSOR_PLACED, encode_cursor(cursor), b"")
    out.changes.append(CursorPlacement([record], cursor, command.port))


def cursor_placed(state: State, change: Change, now_ms: int, out: Effects) -> None:
    """The cursor is placed; messages that only it needed are let go."""
    assert isinstance(change, CursorPlacement)
    out.released.extend(_retention(state).place(change.cursor))
    out.outward.append(Answered(change.port.placed, change.cursor))


def abort_cursor(state: State, change: Change, error: BusError, out: Effects) -> None:
    """The store failed: the cursor stays where it was."""
    assert isinstance(change, CursorPlacement | CursorDrop)
    out.outward.append(Failed(change.port, error))


def drop_cursor(state: State, command: Command, now_ms: int, out: Effects) -> None:
    """Prepare the deletion of a cursor."""
    assert isinstance(command, commands.DropCursor)
    if command.name not in _retention(state).cursors:
        error = EntityNotFound(f"'{state.spec.path}' has no cursor '{command.name}'.")
        out.outward.append(Failed(command.port, error))
        return
    record = Record(state.fragment_id, CURSOR_DROPPED, command.name.encode(), b"")
    out.changes.append(CursorDrop([record], command.name, command.port))


def cursor_dropped(state: State, change: Change, now_ms: int, out: Effects) -> None:
    """The cursor is gone."""
    assert isinstance(change, CursorDrop)
    retention = _retention(state)
    retention.cursors.pop(change.name, None)
    out.released.extend(retention.trim())
    out.outward.append(Done(change.port, 1))


def list_cursors(state: State, command: Command, now_ms: int, out: Effects) -> None:
    """Every cursor of the fragment."""
    assert isinstance(command, commands.ListCursors)
    cursors = [] if state.retention is None else list(state.retention.cursors.values())
    out.outward.append(Answered(command.port.cursors_listed, cursors))


# --- limits ---------------------------------------------------------------------------------------


def trim(state: State, allowance: Allowance, now_ms: int, out: Effects) -> None:
    """Discard what is too old or too much; durably, since its space may be reused."""
    retention = state.retention
    if retention is None or not len(retention.table) or retention.trimming:
        return
    floor = retention.floor_wanted(now_ms)
    if floor > retention.floor:
        retention.trimming = True
        record = Record(state.fragment_id, RETENTION_TRIMMED, _FLOOR.pack(floor), b"")
        out.changes.append(Trim([record], floor))


def trimmed(state: State, change: Change, now_ms: int, out: Effects) -> None:
    """Messages below the floor are gone."""
    assert isinstance(change, Trim)
    retention = _retention(state)
    retention.trimming = False
    retention.floor = max(retention.floor, change.floor)
    out.released.extend(retention.trim())


def abort_trim(state: State, change: Change, error: BusError, out: Effects) -> None:
    """The store failed: trim again when it is back."""
    _retention(state).trimming = False


# --- reading --------------------------------------------------------------------------------------


def plan_range(state: State, command: Command, now_ms: int, out: Effects) -> None:
    """How far a read would get."""
    assert isinstance(command, commands.PlanRange)
    if state.suspended:
        # The read follows this plan, and a store that is down could not serve it.
        out.outward.append(Failed(command.port, StoreUnavailable()))
        return
    end, count, byte_count = command.from_sequence, 0, 0
    for held in _range(state, command.subqueue, command.from_sequence):
        if count >= command.count_max or (count and byte_count >= command.byte_count_max):
            break
        end = held.sequence + 1
        count += 1
        byte_count += held.length
    else:
        # There are no more messages: skip the numbers that have none.
        end = max(end, state.next_sequence_durable)
    earliest = 0 if state.retention is None else state.retention.floor
    plan = commands.RangePlan(earliest, end, count, byte_count, state.next_sequence_durable)
    out.outward.append(Answered(command.port.planned, plan))


def find_time(state: State, command: Command, now_ms: int, out: Effects) -> None:
    """The first number from which on everything was enqueued at or after a time."""
    assert isinstance(command, commands.FindTime)
    enqueued_ms = command.enqueued_ms
    found = [state.next_sequence_durable]
    found += [table.sequence_at(enqueued_ms) for table in _tables(state, SubQueueType.MAIN)]
    for subqueue in (state.main, state.dead):
        outside = [*subqueue.locks.values(), *subqueue.leaving.values()]
        found += [held.sequence for held in outside if held.enqueued_ms >= enqueued_ms]
    out.outward.append(Answered(command.port.located, min([number for number in found if number])))


def read_range(state: State, command: Command, now_ms: int, out: Effects) -> None:
    """Copies of a range, as many as fit."""
    assert isinstance(command, commands.ReadRange)
    if state.suspended:
        out.outward.append(Failed(command.port, StoreUnavailable()))
        return
    found: list[Held] = []
    byte_count = 0
    for held in _range(state, command.subqueue, command.from_sequence):
        byte_count += held.length
        if (
            held.sequence >= command.to_sequence
            or len(found) >= command.count_max
            or (found and byte_count > command.byte_count_max)
        ):
            break
        found.append(held)
    out.outward.append(Found(command.port, found, False))


def _range(state: State, subqueue: SubQueueType | None, from_sequence: int) -> Iterator[Held]:
    """Everything from a number on that is still stored, except scheduled messages.

    For the main queue that is everything that arrived, including messages dead-lettered since.
    Without a subqueue it is what waits in the main queue.
    """
    sources = [table.copies(from_sequence) for table in _tables(state, subqueue) if len(table)]
    for place in _subqueues(state, subqueue):
        for loose in (place.locks, place.leaving):
            if loose:
                held = [held for held in loose.values() if held.sequence >= from_sequence]
                sources.append(iter(sorted(held, key=_sequence_of)))
    # Most of the time everything is in one table, which needs no merging.
    return sources[0] if len(sources) == 1 else merge(*sources, key=_sequence_of)


def _sequence_of(held: Held) -> int:
    return held.sequence


def _subqueues(state: State, subqueue: SubQueueType | None) -> list[SubQueue]:
    if subqueue is None:
        return [state.main]
    return (
        [state.main, state.dead] if subqueue is SubQueueType.MAIN else [state.subqueues[subqueue]]
    )


def _tables(state: State, subqueue: SubQueueType | None) -> list[MessageTable]:
    """The tables of everything that has arrived in a subqueue."""
    tables: list[MessageTable] = []
    for place in _subqueues(state, subqueue):
        tables += (place.ready, place.deferred)
    if subqueue is None or subqueue is SubQueueType.MAIN:
        if state.claims is not None:
            tables += [claim.table for claim in state.claims.by_owner.values()]
        if subqueue is not None and state.retention is not None:
            tables.append(state.retention.table)
    return tables


# --- recovery -------------------------------------------------------------------------------------


def replay_cursor(state: State, kind: int, meta: bytes, position: int, length: int) -> None:
    """Apply one record about cursors."""
    retention = _retention(state)
    if kind == CURSOR_PLACED:
        cursor, _ = decode_cursor(meta, 0)
        retention.place(cursor)
        return
    if kind == CURSOR_DROPPED:
        retention.cursors.pop(meta.decode(), None)
    else:
        (floor,) = _FLOOR.unpack(meta)
        retention.floor = max(retention.floor, floor)
    retention.trim()


def _retention(state: State) -> Retention:
    if state.retention is None:
        state.retention = Retention()
    return state.retention
