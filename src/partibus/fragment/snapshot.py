"""The whole durable state of a fragment as bytes, and back.

A snapshot holds what the records before it have made: counters and every table of messages,
as they lie in memory. Locks and receivers are volatile (SEED-107) and not part of it: a
locked message is kept in the table it would go back to. Versioned; a release reads the
previous version.
"""

import struct
from typing import Final

from partibus.domain.errors import StoreCorrupt
from partibus.fragment.message import Held, Overlay
from partibus.fragment.records import pack_overlay, unpack_overlay
from partibus.fragment.spec import FragmentSpec
from partibus.fragment.state import State
from partibus.fragment.table import ROW_BYTES, MessageTable

VERSION: Final = 1
_HEAD: Final = struct.Struct("<BQ")
_TABLE: Final = struct.Struct("<QII")
_HELD: Final = struct.Struct("<QQIIQQ")
_SEQUENCE: Final = struct.Struct("<Q")


def dump(state: State) -> bytes:
    """The state as of its last committed change."""
    parts = [_HEAD.pack(VERSION, state.next_sequence_durable)]
    for table, loose in _tables(state):
        _dump_table(table, loose, parts)
    return b"".join(parts)


def _tables(state: State) -> list[tuple[MessageTable, list[Held]]]:
    """Each table, with the messages that are out of it at this moment."""
    out: list[tuple[MessageTable, list[Held]]] = []
    for lane in state.lanes:
        outside = [*lane.locks.values(), *lane.leaving.values()]
        out.append((lane.ready, [held for held in outside if not held.deferred]))
        out.append((lane.deferred, [held for held in outside if held.deferred]))
    out.append((state.scheduled, list(state.departing.values())))
    return out


def _dump_table(table: MessageTable, loose: list[Held], parts: list[bytes]) -> None:
    overlays = table.overlays()
    parts.append(_TABLE.pack(len(table), len(loose), len(overlays)))
    parts.extend(table.dump_rows())
    for held in loose:
        fields = (held.sequence, held.position, held.length, held.delivery_count)
        parts.append(_HELD.pack(*fields, held.enqueued_ms, held.expires_ms))
        parts.append(pack_overlay(held.overlay))
    for sequence, overlay in overlays.items():
        parts.append(_SEQUENCE.pack(sequence))
        parts.append(pack_overlay(overlay))


def load(fragment_id: int, spec: FragmentSpec, data: bytes) -> State:
    """The state that a snapshot holds."""
    state = State(fragment_id, spec)
    try:
        version, next_sequence = _HEAD.unpack_from(data, 0)
        if version != VERSION:
            raise StoreCorrupt(
                f"snapshot version {version} is not known to this release; "
                "open the data with the release that wrote it"
            )
        offset = _HEAD.size
        for table, _ in _tables(state):
            offset = _load_table(table, data, offset)
    except struct.error as cause:
        raise StoreCorrupt("a fragment's snapshot is cut short") from cause
    state.next_sequence = state.next_sequence_durable = next_sequence
    return state


def _load_table(table: MessageTable, data: bytes, offset: int) -> int:
    row_count, loose_count, overlay_count = _TABLE.unpack_from(data, offset)
    rows_at = offset + _TABLE.size
    offset = rows_at + row_count * ROW_BYTES
    if offset > len(data):
        raise StoreCorrupt("a fragment's snapshot is cut short")
    rows = data[rows_at:offset]
    loose: list[Held] = []
    for _ in range(loose_count):
        sequence, position, length, count, enqueued_ms, expires_ms = _HELD.unpack_from(data, offset)
        overlay, offset = unpack_overlay(data, offset + _HELD.size)
        loose.append(Held(sequence, position, length, enqueued_ms, expires_ms, count, overlay))
    overlays: dict[int, Overlay] = {}
    for _ in range(overlay_count):
        (sequence,) = _SEQUENCE.unpack_from(data, offset)
        overlay, offset = unpack_overlay(data, offset + _SEQUENCE.size)
        if overlay is not None:
            overlays[sequence] = overlay
    table.load(rows, overlays)
    for held in loose:
        table.insert(held)
    return offset
