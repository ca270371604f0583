"""The whole durable state of a fragment as bytes, and back.

A snapshot holds what the records before it have made: counters and every table of messages,
as they lie in memory. Locks and receivers are volatile (SEED-107) and not part of it: a
locked message is kept in the table it would go back to. Only the last snapshot before a clean
stop has the locks as well, in a section of their own. Behind the tables come sections,
each with a tag and its size: what only some entities have, such as sessions. Versioned; a
release reads the previous version.
"""

import struct
from typing import Final

from partibus.domain.errors import StoreCorrupt
from partibus.fragment.claims import state as claims
from partibus.fragment.claims.state import Claims
from partibus.fragment.cursors import retention
from partibus.fragment.cursors.retention import Retention
from partibus.fragment.message import Held, Overlay
from partibus.fragment.outbox.records import dump_outbox, load_outbox
from partibus.fragment.queue.history import Part
from partibus.fragment.queue.kept_locks import dump_locks
from partibus.fragment.queue.table import ROW_BYTES, MessageTable, packed, unpacked
from partibus.fragment.records import pack_overlay, unpack_overlay
from partibus.fragment.sessions.records import dump_sessions, load_sessions
from partibus.fragment.spec import FragmentSpec
from partibus.fragment.stages import state as stages
from partibus.fragment.stages.state import Stages
from partibus.fragment.state import State

VERSION: Final = 3
"""1 had no sections; before 3 no row said that its message was scheduled, nor held a time to live
beyond 32 bits."""
SESSIONS_SECTION: Final = 1
IDENTITIES_SECTION: Final = 2
OUTBOX_SECTION: Final = 48
MARKS_SECTION: Final = 49
CLAIMS_SECTION: Final = 10
CURSORS_SECTION: Final = 11
STAGES_SECTION: Final = 12
LOCKS_SECTION: Final = 20
_SECTION: Final = struct.Struct("<BQ")
_HEAD: Final = struct.Struct("<BQ")
_TABLE: Final = struct.Struct("<QII")
_HELD: Final = struct.Struct("<QQIIQQ")
_SEQUENCE: Final = struct.Struct("<Q")


def dump(state: State, keeps_locks: bool = False) -> bytes:
    """The state as of its last committed change; with the locks when a stop follows."""
    parts: list[Part] = [_HEAD.pack(VERSION, state.next_sequence_durable)]
    for table, loose in _tables(state):
        _dump_table(table, loose, parts)
    sections = _sections(state)
    if keeps_locks and state.lock_count:
        sections.append((LOCKS_SECTION, [dump_locks(state)]))
    for tag, section in sections:
        parts.append(_SECTION.pack(tag, sum(map(_byte_count, section))))
        parts += section
    return b"".join(parts)


def _sections(state: State) -> list[tuple[int, list[Part]]]:
    """What the entity has beside messages, by tag."""
    sections: list[tuple[int, list[Part]]] = []
    if state.history.count:
        sections.append((IDENTITIES_SECTION, state.history.dump()))
    if state.sessions is not None:
        sections.append((SESSIONS_SECTION, [dump_sessions(state.sessions)]))
    if state.outbox.next_number_durable > 1:
        sections.append((OUTBOX_SECTION, dump_outbox(state.outbox)))
    if len(state.marks):
        sections.append((MARKS_SECTION, [state.marks.dump()]))
    if state.claims is not None:
        sections.append((CLAIMS_SECTION, _dump_claims(state.claims)))
    if state.retention is not None:
        kept: list[Part] = [retention.dump_head(state.retention)]
        _dump_table(state.retention.table, [], kept)
        sections.append((CURSORS_SECTION, kept))
    if state.stages is not None:
        sections.append((STAGES_SECTION, _dump_stages(state.stages)))
    return sections


def _dump_claims(held: Claims) -> list[Part]:
    parts: list[Part] = []
    for claim in held.by_owner.values():
        parts.append(claims.dump_head(claim))
        _dump_table(claim.table, [], parts)
    return parts


def _load_claims(data: bytes) -> Claims:
    found = Claims()
    offset = 0
    while offset < len(data):
        claim, offset = claims.load_head(data, offset)
        offset = _load_table(claim.table, data, offset)
        claim.byte_count = sum([length for _, length in claim.table.bodies()])
        found.by_owner[claim.owner] = claim
    return found


def _load_cursors(data: bytes) -> Retention:
    found, offset = retention.load_head(data)
    _load_table(found.table, data, offset)
    found.byte_count = sum([length for _, length in found.table.bodies()])
    return found


def _dump_stages(staged: Stages) -> list[Part]:
    parts: list[Part] = [stages.dump_head(staged)]
    for stage, is_published in stages.durable_stages(staged):
        parts.append(stages.dump_stage(stage, is_published))
        _dump_table(stage.table, [], parts)
    return parts


def _load_stages(data: bytes) -> Stages:
    found, count, offset = stages.load_head(data)
    for _ in range(count):
        stage, offset = stages.load_stage(found, data, offset)
        offset = _load_table(stage.table, data, offset)
        stage.byte_count = sum([length for _, length in stage.table.bodies()])
        stage.next_place = stage.table.last_sequence + 1
    return found


def _byte_count(part: Part) -> int:
    return len(part) if isinstance(part, bytes) else len(part) * part.itemsize


def _load_section(state: State, tag: int, data: bytes) -> None:
    if tag == IDENTITIES_SECTION:
        state.history.load(data)
        return
    if tag == SESSIONS_SECTION:
        load_sessions(state, data)
        return
    if tag == OUTBOX_SECTION:
        load_outbox(state, data)
        return
    if tag == MARKS_SECTION:
        state.marks.load(data)
        return
    if tag == CLAIMS_SECTION:
        state.claims = _load_claims(data)
        return
    if tag == CURSORS_SECTION:
        state.retention = _load_cursors(data)
        return
    if tag == STAGES_SECTION:
        state.stages = _load_stages(data)
        return
    if tag == LOCKS_SECTION:
        state.kept_locks = data
        return
    raise StoreCorrupt(
        f"a snapshot's section {tag} is not known to this release; "
        "open the data with the release that wrote it"
    )


def _load_sections(state: State, data: bytes, offset: int) -> None:
    while offset < len(data):
        tag, size = _SECTION.unpack_from(data, offset)
        offset += _SECTION.size
        if offset + size > len(data):
            raise StoreCorrupt("a fragment's snapshot is cut short")
        _load_section(state, tag, data[offset : offset + size])
        offset += size


def _tables(state: State) -> list[tuple[MessageTable, list[Held]]]:
    """Each table, with the messages that are out of it at this moment."""
    out: list[tuple[MessageTable, list[Held]]] = []
    for lane in state.lanes:
        outside = [*lane.locks.values(), *lane.leaving.values()]
        out.append((lane.ready, [held for held in outside if not held.deferred]))
        out.append((lane.deferred, [held for held in outside if held.deferred]))
    out.append((state.scheduled, list(state.departing.values())))
    return out


def _dump_table(table: MessageTable, loose: list[Held], parts: list[Part]) -> None:
    overlays = table.overlays()
    parts.append(_TABLE.pack(len(table), len(loose), len(overlays)))
    parts.extend(table.dump_rows())
    for held in loose:
        word, stamp = packed(held)
        fields = (held.sequence, held.position, held.length, word, stamp, held.expires_ms)
        parts.append(_HELD.pack(*fields))
        parts.append(pack_overlay(held.overlay))
    for sequence, overlay in overlays.items():
        parts.append(_SEQUENCE.pack(sequence))
        parts.append(pack_overlay(overlay))


def load(fragment_id: int, spec: FragmentSpec, data: bytes) -> State:
    """The state that a snapshot holds."""
    state = State(fragment_id, spec)
    try:
        version, next_sequence = _HEAD.unpack_from(data, 0)
        if not 1 <= version <= VERSION:
            raise StoreCorrupt(
                f"snapshot version {version} is not known to this release; "
                "open the data with the release that wrote it"
            )
        offset = _HEAD.size
        for table, _ in _tables(state):
            offset = _load_table(table, data, offset)
        if version > 1:
            _load_sections(state, data, offset)
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
        sequence, position, length, word, stamp, expires_ms = _HELD.unpack_from(data, offset)
        overlay, offset = unpack_overlay(data, offset + _HELD.size)
        loose.append(unpacked(sequence, position, length, word, stamp, expires_ms, overlay))
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
