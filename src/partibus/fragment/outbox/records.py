"""The durable facts of outboxes and marks, as bytes: records of the log, sections of a snapshot.

Owns their encodings and their replay. A message that enters the outbox is stored by its own
record like any other; `DEPARTED` in the same entry, or a later one, says that it left its subqueue.
"""

import struct
from typing import Final

from partibus.domain.errors import StoreCorrupt
from partibus.fragment.commands import SubQueueType
from partibus.fragment.message import NEVER_MS, Held, Overlay
from partibus.fragment.outbox.marks import Mark
from partibus.fragment.outbox.state import TRANSFER_SEQUENCES, Outbox, Parcel, Purpose
from partibus.fragment.paging import NewPages
from partibus.fragment.queue.history import Part
from partibus.fragment.queue.recovery import take
from partibus.fragment.queue.table import ROW_BYTES
from partibus.fragment.records import (
    DEPARTED,
    FENCED,
    HANDED_OVER,
    PARCELS_RETURNED,
    REDIRECTED,
    TAKEN,
    TRANSFERRED,
    pack_overlay,
    pack_sequences,
    unpack_overlay,
    unpack_sequences,
)
from partibus.fragment.state import State
from partibus.fragment.table_snapshot import TableReader, dump_table
from partibus.store.record import Record

_DEPARTED: Final = struct.Struct("<QBH")
_TRANSFERRED: Final = struct.Struct("<QQH")
_REDIRECTED: Final = struct.Struct("<QH")
_TAKEN: Final = struct.Struct("<QQ")
_PAGED_SECTION: Final = struct.Struct("<QI")
_SECTION: Final = struct.Struct("<QQII")
_ROUTE: Final = struct.Struct("<BH")
_NUMBER: Final = struct.Struct("<Q")


# --- records -------------------------------------------------------------------------------------


def departed(
    fragment_id: int, first_number: int, purpose: Purpose, path: str, sequences: list[int]
) -> Record:
    """Messages of a subqueue are in the outbox."""
    encoded = path.encode()
    meta = _DEPARTED.pack(first_number, purpose, len(encoded)) + encoded
    return Record(fragment_id, DEPARTED, meta + pack_sequences(sequences))


def transferred(fragment_id: int, number: int, now_ms: int, path: str, body: bytes) -> Record:
    """A message was given to the outbox alone."""
    encoded = path.encode()
    meta = _TRANSFERRED.pack(number, now_ms, len(encoded)) + encoded
    return Record(fragment_id, TRANSFERRED, meta, body)


def handed_over(fragment_id: int, numbers: list[int]) -> Record:
    """Parcels belong to their destination."""
    return Record(fragment_id, HANDED_OVER, pack_sequences(numbers))


def parcels_returned(
    fragment_id: int, subqueue: SubQueueType, overlay: Overlay | None, numbers: list[int]
) -> Record:
    """Parcels are in a subqueue again."""
    meta = bytes((subqueue,)) + pack_overlay(overlay) + pack_sequences(numbers)
    return Record(fragment_id, PARCELS_RETURNED, meta)


def redirected(fragment_id: int, first_number: int, path: str, numbers: list[int]) -> Record:
    """Parcels are bound to a path under new numbers."""
    encoded = path.encode()
    meta = _REDIRECTED.pack(first_number, len(encoded)) + encoded + pack_sequences(numbers)
    return Record(fragment_id, REDIRECTED, meta)


def taken(fragment_id: int, origin_id: int, number: int) -> Record:
    """Everything up to this number was taken from an origin, with the messages of this entry."""
    return Record(fragment_id, TAKEN, _TAKEN.pack(origin_id, number))


def fenced(fragment_id: int, origin_id: int, number: int) -> Record:
    """Nothing more up to this number will be taken from an origin."""
    return Record(fragment_id, FENCED, _TAKEN.pack(origin_id, number))


# --- replay --------------------------------------------------------------------------------------


def replay_handed_over(state: State, kind: int, meta: bytes, position: int, length: int) -> None:
    """Parcels belong to their destination."""
    for number in unpack_sequences(meta):
        _left_session(state, _parcel(state, number).held)


def replay_taken(state: State, kind: int, meta: bytes, position: int, length: int) -> None:
    """Messages of an origin have arrived."""
    origin_id, number = _TAKEN.unpack(meta)
    state.marks.set(origin_id, Mark(number, 0))


def replay_fenced(state: State, kind: int, meta: bytes, position: int, length: int) -> None:
    """Nothing more up to a number will arrive from an origin."""
    origin_id, number = _TAKEN.unpack(meta)
    state.marks.set(origin_id, Mark(state.marks.of(origin_id).taken, number))


def _parcel(state: State, number: int) -> Parcel:
    parcel = state.outbox.take(number)
    if parcel is None:
        raise StoreCorrupt(f"a record names parcel {number}, which is not in the outbox")
    return parcel


def replay_departed(state: State, kind: int, meta: bytes, position: int, length: int) -> None:
    """Messages of a subqueue are in the outbox."""
    number, purpose, size = _DEPARTED.unpack_from(meta, 0)
    end = _DEPARTED.size + size
    path = meta[_DEPARTED.size : end].decode()
    for sequence in unpack_sequences(meta, end):
        held, _ = take(state, sequence)
        state.outbox.enter(number, held, Purpose(purpose), path)
        number += 1
    state.outbox.next_number = number


def replay_transferred(state: State, kind: int, meta: bytes, position: int, length: int) -> None:
    """A message was given to the outbox alone."""
    number, enqueued_ms, size = _TRANSFERRED.unpack_from(meta, 0)
    path = meta[_TRANSFERRED.size : _TRANSFERRED.size + size].decode()
    sequence = TRANSFER_SEQUENCES | number
    held = Held(sequence, position, length, enqueued_ms, NEVER_MS, 0, None)
    state.outbox.enter(number, held, Purpose.TRANSFER, path)
    state.outbox.next_number = number + 1


def replay_parcels_returned(
    state: State, kind: int, meta: bytes, position: int, length: int
) -> None:
    """Parcels are in a subqueue again."""
    overlay, offset = unpack_overlay(meta, 1)
    ready = state.subqueues[meta[0]].ready
    for number in unpack_sequences(meta, offset):
        held = _parcel(state, number).held
        held.lay_over(overlay)
        ready.insert(held)
        if meta[0] != SubQueueType.MAIN:
            _left_session(state, held)


def _left_session(state: State, held: Held) -> None:
    if state.sessions is not None:
        state.sessions.forget([held.sequence])


def replay_redirected(state: State, kind: int, meta: bytes, position: int, length: int) -> None:
    """Parcels are bound to a path under new numbers."""
    first, size = _REDIRECTED.unpack_from(meta, 0)
    end = _REDIRECTED.size + size
    path = meta[_REDIRECTED.size : end].decode()
    for number in unpack_sequences(meta, end):
        parcel = _parcel(state, number)
        state.outbox.enter(first, parcel.held, parcel.purpose, path)
        first += 1
    state.outbox.next_number = first


# --- snapshots -----------------------------------------------------------------------------------


def dump_outbox(outbox: Outbox, pages: NewPages | None = None) -> list[Part]:
    """Counter and routes, then parcels, then the words of all."""
    parts: list[Part] = [_PAGED_SECTION.pack(outbox.next_number_durable, len(outbox.routes))]
    for purpose, path in outbox.routes:
        encoded = path.encode()
        parts += (_ROUTE.pack(purpose, len(encoded)), encoded)
    dump_table(outbox.table, [], parts, pages)
    parts.append(outbox.words.dump())
    return parts


def load_outbox(state: State, data: bytes, tables: TableReader) -> None:
    """The outbox that `dump_outbox` wrote."""
    outbox = state.outbox
    next_number, route_count = _PAGED_SECTION.unpack_from(data, 0)
    outbox.next_number = outbox.next_number_durable = next_number
    offset = _load_routes(outbox, data, _PAGED_SECTION.size, route_count)
    offset = tables.load(outbox.table, data, offset)
    outbox.words.load(data, offset, "outbox")


def _load_routes(outbox: Outbox, data: bytes, offset: int, count: int) -> int:
    routes: list[tuple[Purpose, str]] = []
    for _ in range(count):
        purpose, size = _ROUTE.unpack_from(data, offset)
        offset += _ROUTE.size + size
        routes.append((Purpose(purpose), data[offset - size : offset].decode()))
    outbox.restore_routes(routes)
    return offset


def load_unpaged_outbox(state: State, data: bytes, tables: TableReader) -> None:
    """An outbox as written by earlier releases: routes, overlays, rows, words."""
    outbox = state.outbox
    next_number, row_count, route_count, overlay_count = _SECTION.unpack_from(data, 0)
    outbox.next_number = outbox.next_number_durable = next_number
    offset = _load_routes(outbox, data, _SECTION.size, route_count)
    overlays: dict[int, Overlay] = {}
    for _ in range(overlay_count):
        (number,) = _NUMBER.unpack_from(data, offset)
        overlay, offset = unpack_overlay(data, offset + _NUMBER.size)
        if overlay is not None:
            overlays[number] = overlay
    rows_end = offset + row_count * ROW_BYTES
    if rows_end > len(data):
        raise StoreCorrupt("a snapshot's outbox is truncated")
    outbox.table.load(data[offset:rows_end], overlays)
    outbox.words.load(data, rows_end, "outbox")


def dump_used_outbox(state: State, pages: NewPages | None) -> list[Part] | None:
    """The outbox of a fragment that has ever had a parcel."""
    return dump_outbox(state.outbox, pages) if state.outbox.next_number_durable > 1 else None


def dump_marks(state: State, pages: NewPages | None) -> list[Part] | None:
    """How far each origin's parcels were taken."""
    return [state.marks.dump()] if len(state.marks) else None


def load_marks(state: State, data: bytes, tables: TableReader) -> None:
    """What `dump_marks` wrote."""
    state.marks.load(data)
