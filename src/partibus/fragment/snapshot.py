"""The whole durable state of a fragment as bytes, and back.

A snapshot holds what the records before it have made: counters and every table of messages, as they
are in memory; large parts are in pages that snapshots share. Locks and receivers are volatile
(SEED-107) and not part of it: a locked message is kept in the table it would go back to. Only the
last snapshot before a clean stop has the locks as well, in a section of their own. The tables are
followed by sections, each with a tag and a size, for what only some entities have, such as
sessions. Versioned; a release reads the previous version.
"""

import struct
from functools import partial
from typing import Final

from partibus.domain.errors import StoreCorrupt
from partibus.fragment.feature import SnapshotSection
from partibus.fragment.machine import FEATURES
from partibus.fragment.message import Held
from partibus.fragment.paging import PAGE_BYTES_MIN, NewPages, encode_bytes
from partibus.fragment.queue.history import Part
from partibus.fragment.queue.table import MessageTable
from partibus.fragment.spec import FragmentSpec
from partibus.fragment.state import State
from partibus.fragment.table_snapshot import PAGED_VERSION, TableReader, dump_table
from partibus.store.interface import NO_PAGES, Pages

VERSION: Final = PAGED_VERSION
"""1 had no sections; before 3 no row said that its message was scheduled, nor held a time to live
beyond 32 bits; before 4 there were no pages."""
_SECTION: Final = struct.Struct("<BQ")
_HEAD: Final = struct.Struct("<BQ")
_PAGE: Final = struct.Struct("<Q")
IN_PAGE: Final = 128
"""Added to the tag of a section that is in a page; the section then holds the page's number."""
SECTIONS: Final[dict[int, SnapshotSection]] = {}
"""Every section that a snapshot may have, by its tag, in the order of the features."""


def _assemble() -> None:
    for feature in FEATURES:
        for section in feature.sections:
            SECTIONS[section.tag] = section


_assemble()


def dump(state: State, keeps_locks: bool = False, pages: NewPages | None = None) -> bytes:
    """The state as of its last committed change; with the locks when a stop follows.

    Large parts go to `pages`, if given, unless they are in one already.
    """
    parts: list[Part] = [_HEAD.pack(VERSION, state.next_sequence_durable)]
    for table, loose in _tables(state):
        dump_table(table, loose, parts, pages)
    for section in SECTIONS.values():
        if section.dump is not None and (keeps_locks or not section.at_stop):
            content = section.dump(state, pages)
            if content is not None:
                _add_section(parts, section.tag, content, pages)
    return b"".join(parts)


def _add_section(parts: list[Part], tag: int, content: list[Part], pages: NewPages | None) -> None:
    """Put a section into the snapshot, or into a page when it is large."""
    size = sum(map(_byte_count, content))
    if pages is not None and size >= PAGE_BYTES_MIN:
        number = pages.add(partial(encode_bytes, b"".join(content)))
        parts += (_SECTION.pack(tag | IN_PAGE, _PAGE.size), _PAGE.pack(number))
    else:
        parts.append(_SECTION.pack(tag, size))
        parts += content


def _byte_count(part: Part) -> int:
    return len(part) if isinstance(part, bytes) else len(part) * part.itemsize


def _load_section(state: State, tag: int, data: bytes, tables: TableReader) -> None:
    section = SECTIONS.get(tag)
    if section is None:
        raise StoreCorrupt(
            f"a snapshot's section {tag} is not known to this release; "
            "open the data with the release that wrote it"
        )
    section.load(state, data, tables)


def _load_sections(state: State, data: bytes, offset: int, tables: TableReader) -> None:
    while offset < len(data):
        tag, size = _SECTION.unpack_from(data, offset)
        offset += _SECTION.size
        if offset + size > len(data):
            raise StoreCorrupt("a fragment's snapshot is truncated")
        section = data[offset : offset + size]
        if tag & IN_PAGE:
            section = tables.page(_PAGE.unpack(section)[0])
        _load_section(state, tag & ~IN_PAGE, section, tables)
        offset += size


def _tables(state: State) -> list[tuple[MessageTable, list[Held]]]:
    """Each table, with the messages that are currently out of it."""
    out: list[tuple[MessageTable, list[Held]]] = []
    for subqueue in state.subqueues:
        outside = [*subqueue.locks.values(), *subqueue.leaving.values()]
        out.append((subqueue.ready, [held for held in outside if not held.deferred]))
        out.append((subqueue.deferred, [held for held in outside if held.deferred]))
    out.append((state.scheduled, list(state.departing.values())))
    return out


def load(fragment_id: int, spec: FragmentSpec, data: bytes, pages: Pages = NO_PAGES) -> State:
    """The state that a snapshot holds."""
    state = State(fragment_id, spec)
    try:
        version, next_sequence = _HEAD.unpack_from(data, 0)
        if not 1 <= version <= VERSION:
            raise StoreCorrupt(
                f"snapshot version {version} is not known to this release; "
                "open the data with the release that wrote it"
            )
        tables = TableReader(version, pages)
        offset = _HEAD.size
        for table, _ in _tables(state):
            offset = tables.load(table, data, offset)
        if version > 1:
            _load_sections(state, data, offset, tables)
    except struct.error as cause:
        raise StoreCorrupt("a fragment's snapshot is truncated") from cause
    state.next_sequence = state.next_sequence_durable = next_sequence
    return state
