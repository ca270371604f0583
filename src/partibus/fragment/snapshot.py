"""The whole durable state of a fragment as bytes, and back.

A snapshot holds what the records before it have made: counters and every table of messages,
as they lie in memory; what is large of it lies in pages that snapshots share. Locks and receivers
are volatile (SEED-107) and not part of it: a locked message is kept in the table it would go back
to. Only the last snapshot before a clean stop has the locks as well, in a section of their own.
Behind the tables come sections, each with a tag and its size: what only some entities have, such
as sessions. Versioned; a release reads the previous version.
"""

import struct
from functools import partial
from typing import Final

from partibus.domain.errors import StoreCorrupt
from partibus.fragment.claims import state as claims
from partibus.fragment.claims.state import Claims
from partibus.fragment.cursors import retention
from partibus.fragment.cursors.retention import Retention
from partibus.fragment.message import Held
from partibus.fragment.outbox.records import dump_outbox, load_outbox, load_unpaged_outbox
from partibus.fragment.paging import PAGE_BYTES_MIN, NewPages, encode_bytes, encode_words
from partibus.fragment.queue.history import Part, Shard
from partibus.fragment.queue.kept_locks import dump_locks
from partibus.fragment.queue.table import MessageTable
from partibus.fragment.sessions.records import dump_sessions, load_sessions
from partibus.fragment.spec import FragmentSpec
from partibus.fragment.stages import state as stages
from partibus.fragment.stages.state import Stages
from partibus.fragment.state import State
from partibus.fragment.table_snapshot import PAGED_VERSION, TableReader, dump_table
from partibus.store.interface import NoPages, Pages

VERSION: Final = PAGED_VERSION
"""1 had no sections; before 3 no row said that its message was scheduled, nor held a time to live
beyond 32 bits; before 4 there were no pages."""
SESSIONS_SECTION: Final = 1
IDENTITIES_SECTION: Final = 2
UNPAGED_OUTBOX_SECTION: Final = 48
OUTBOX_SECTION: Final = 50
MARKS_SECTION: Final = 49
CLAIMS_SECTION: Final = 10
CURSORS_SECTION: Final = 11
STAGES_SECTION: Final = 12
LOCKS_SECTION: Final = 20
_SECTION: Final = struct.Struct("<BQ")
_HEAD: Final = struct.Struct("<BQ")
_PAGE: Final = struct.Struct("<Q")
IN_PAGE: Final = 128
"""Added to the tag of a section that lies in a page, of which it has the number."""


def dump(state: State, keeps_locks: bool = False, pages: NewPages | None = None) -> bytes:
    """The state as of its last committed change; with the locks when a stop follows.

    What is large goes to `pages`, if there are any, unless it is in one already."""
    parts: list[Part] = [_HEAD.pack(VERSION, state.next_sequence_durable)]
    for table, loose in _tables(state):
        dump_table(table, loose, parts, pages)
    sections = _sections(state, pages)
    if keeps_locks and state.lock_count:
        sections.append((LOCKS_SECTION, [dump_locks(state)]))
    for tag, section in sections:
        size = sum(map(_byte_count, section))
        if pages is not None and size >= PAGE_BYTES_MIN:
            number = pages.add(partial(encode_bytes, b"".join(section)))
            parts += (_SECTION.pack(tag | IN_PAGE, _PAGE.size), _PAGE.pack(number))
        else:
            parts.append(_SECTION.pack(tag, size))
            parts += section
    return b"".join(parts)


def _sections(state: State, pages: NewPages | None) -> list[tuple[int, list[Part]]]:
    """What the entity has beside messages, by tag."""
    sections: list[tuple[int, list[Part]]] = []
    if state.history.count:
        sections.append((IDENTITIES_SECTION, _dump_history(state, pages)))
    if state.sessions is not None:
        sections.append((SESSIONS_SECTION, [dump_sessions(state.sessions)]))
        if pages is not None:
            pages.spent += len(state.sessions.by_id)
    if state.outbox.next_number_durable > 1:
        sections.append((OUTBOX_SECTION, dump_outbox(state.outbox, pages)))
    if len(state.marks):
        sections.append((MARKS_SECTION, [state.marks.dump()]))
    if state.claims is not None:
        sections.append((CLAIMS_SECTION, _dump_claims(state.claims, pages)))
    if state.retention is not None:
        kept: list[Part] = [retention.dump_head(state.retention)]
        dump_table(state.retention.table, [], kept, pages)
        sections.append((CURSORS_SECTION, kept))
    if state.stages is not None:
        sections.append((STAGES_SECTION, _dump_stages(state.stages, pages)))
    return sections


def _dump_history(state: State, pages: NewPages | None) -> list[Part]:
    if pages is None:
        return state.history.dump()

    def page_of(shard: Shard) -> int:
        pages.spent += 1
        return (
            pages.mention(shard.page)
            if shard.page
            else pages.add(partial(encode_words, shard.words))
        )

    return state.history.dump(page_of)


def _dump_claims(held: Claims, pages: NewPages | None) -> list[Part]:
    parts: list[Part] = []
    for claim in held.by_owner.values():
        parts.append(claims.dump_head(claim))
        dump_table(claim.table, [], parts, pages)
    return parts


def _load_claims(data: bytes, tables: TableReader) -> Claims:
    found = Claims()
    offset = 0
    while offset < len(data):
        claim, offset = claims.load_head(data, offset)
        offset = tables.load(claim.table, data, offset)
        claim.byte_count = claim.table.byte_count()
        found.by_owner[claim.owner] = claim
    return found


def _load_cursors(data: bytes, tables: TableReader) -> Retention:
    found, offset = retention.load_head(data)
    tables.load(found.table, data, offset)
    found.byte_count = found.table.byte_count()
    return found


def _dump_stages(staged: Stages, pages: NewPages | None) -> list[Part]:
    parts: list[Part] = [stages.dump_head(staged)]
    for stage, is_published in stages.durable_stages(staged):
        parts.append(stages.dump_stage(stage, is_published))
        dump_table(stage.table, [], parts, pages)
    return parts


def _load_stages(data: bytes, tables: TableReader) -> Stages:
    found, count, offset = stages.load_head(data)
    for _ in range(count):
        stage, offset = stages.load_stage(found, data, offset)
        offset = tables.load(stage.table, data, offset)
        stage.byte_count = stage.table.byte_count()
        stage.next_place = stage.table.last_sequence + 1
    return found


def _byte_count(part: Part) -> int:
    return len(part) if isinstance(part, bytes) else len(part) * part.itemsize


def _load_section(state: State, tag: int, data: bytes, tables: TableReader) -> None:
    if tag == IDENTITIES_SECTION:
        state.history.load(data, tables.page)
    elif tag == SESSIONS_SECTION:
        load_sessions(state, data)
    elif tag == UNPAGED_OUTBOX_SECTION:
        load_unpaged_outbox(state, data)
    elif tag == OUTBOX_SECTION:
        load_outbox(state, data, tables)
    elif tag == MARKS_SECTION:
        state.marks.load(data)
    elif tag == CLAIMS_SECTION:
        state.claims = _load_claims(data, tables)
    elif tag == CURSORS_SECTION:
        state.retention = _load_cursors(data, tables)
    elif tag == STAGES_SECTION:
        state.stages = _load_stages(data, tables)
    elif tag == LOCKS_SECTION:
        state.kept_locks = data
    else:
        raise StoreCorrupt(
            f"a snapshot's section {tag} is not known to this release; "
            "open the data with the release that wrote it"
        )


def _load_sections(state: State, data: bytes, offset: int, tables: TableReader) -> None:
    while offset < len(data):
        tag, size = _SECTION.unpack_from(data, offset)
        offset += _SECTION.size
        if offset + size > len(data):
            raise StoreCorrupt("a fragment's snapshot is cut short")
        section = data[offset : offset + size]
        if tag & IN_PAGE:
            section = tables.page(_PAGE.unpack(section)[0])
        _load_section(state, tag & ~IN_PAGE, section, tables)
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


def load(fragment_id: int, spec: FragmentSpec, data: bytes, pages: Pages | None = None) -> State:
    """The state that a snapshot holds."""
    state = State(fragment_id, spec)
    try:
        version, next_sequence = _HEAD.unpack_from(data, 0)
        if not 1 <= version <= VERSION:
            raise StoreCorrupt(
                f"snapshot version {version} is not known to this release; "
                "open the data with the release that wrote it"
            )
        tables = TableReader(version, NoPages() if pages is None else pages)
        offset = _HEAD.size
        for table, _ in _tables(state):
            offset = tables.load(table, data, offset)
        if version > 1:
            _load_sections(state, data, offset, tables)
    except struct.error as cause:
        raise StoreCorrupt("a fragment's snapshot is cut short") from cause
    state.next_sequence = state.next_sequence_durable = next_sequence
    return state
