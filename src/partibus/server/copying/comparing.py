"""Whether two places hold the same, message by message.

Owns the comparison: the catalogs row by row; each fragment's messages with their numbers, states,
delivery counts, times and changed properties; every body byte by byte; and the rest of a fragment
(sessions, locks, duplicate history, claims, cursors, outbox). Finds every difference and names the
first ones. Must never change anything. Called by `copy`.
"""

from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from partibus.control.catalog.copying import COPYING
from partibus.control.catalog.identity import GENERATION
from partibus.control.catalog.rows import COLUMNS as TABLES
from partibus.control.catalog.rows import CatalogRows
from partibus.fragment import feature
from partibus.fragment.queue.table import COLUMNS, MessageTable
from partibus.fragment.snapshot import SECTIONS
from partibus.fragment.state import State
from partibus.server.copying.lane_reading import LaneReading
from partibus.store.files.checking import BODIES_AT_ONCE
from partibus.store.interface import Ref

SHOWN_MAX: Final = 10
"""Differences that are named; further ones are only counted."""
_SECTION_NAMES: Final = {
    feature.SESSIONS_SECTION: "sessions",
    feature.IDENTITIES_SECTION: "history of duplicate detection",
    feature.LOCKS_SECTION: "locks",
    feature.CLAIMS_SECTION: "claims",
    feature.CURSORS_SECTION: "cursors",
    feature.STAGES_SECTION: "stages",
    feature.OUTBOX_SECTION: "outbox",
    feature.MARKS_SECTION: "marks of other outboxes",
}
Advance = Callable[[int], None]


@dataclass(slots=True)
class Comparison:
    """What was compared, and the differences."""

    messages: int = 0
    differences: int = 0
    shown: list[str] = field(default_factory=list)

    def differ(self, text: str) -> None:
        """Record a difference."""
        self.differences += 1
        if len(self.shown) < SHOWN_MAX:
            self.shown.append(text)


def compare_catalogs(source: CatalogRows, target: CatalogRows, found: Comparison) -> None:
    """Compare every row except those that a copy itself changes."""
    for table in TABLES:
        here, there = (_rows(rows, table) for rows in (source, target))
        for row in sorted(here ^ there, key=str):
            where = "source" if row in here else "target"
            # Only the name of the row is shown: its value may be the key of a policy.
            found.differ(f"catalog: a row of {table} ({row[0]}) is only in the {where}")


def _rows(rows: CatalogRows, table: str) -> set[tuple[object, ...]]:
    own = {COPYING, GENERATION}
    return {tuple(row) for row in rows.read_table(table) if table != "setting" or row[0] not in own}


def compare_lanes(
    source: LaneReading,
    target: LaneReading,
    name: Callable[[int], str],
    found: Comparison,
    advance: Advance,
) -> None:
    """All fragments of a lane; `name` returns the entity of a fragment."""
    if source.marks.namespace != target.marks.namespace:
        found.differ("a lane of the target belongs to another namespace")
    for fragment_id in sorted(source.states.keys() | target.states.keys()):
        here, there = source.states.get(fragment_id), target.states.get(fragment_id)
        if here is None or there is None:
            where = "source" if there is None else "target"
            found.differ(f"{name(fragment_id)}: fragment {fragment_id} is only in the {where}")
        else:
            label = f"{name(fragment_id)}, fragment {fragment_id}"
            _compare_states(label, here, there, found)
    for ref in _differing_bodies(source, target, advance):
        found.differ(f"{_holder(source, ref, name)}: the body differs")


def _compare_states(label: str, here: State, there: State, found: Comparison) -> None:
    if here.next_sequence != there.next_sequence:
        found.differ(
            f"{label}: the next number is {here.next_sequence}, in the target {there.next_sequence}"
        )
    for where, table in message_tables(here).items():
        found.messages += len(table)
        _compare_tables(f"{label}, {where}", table, message_tables(there)[where], found)
    for tag, section in SECTIONS.items():
        if section.dump is not None and _dumped(section.dump, here) != _dumped(section.dump, there):
            found.differ(f"{label}: the {_SECTION_NAMES.get(tag, f'section {tag}')} differ")


def message_tables(state: State) -> dict[str, MessageTable]:
    """Every table with messages that clients can see, by the state of its messages."""
    main, dead, transfer = state.subqueues
    return {
        "active": main.ready,
        "deferred": main.deferred,
        "scheduled": state.scheduled,
        "dead letters": dead.ready,
        "deferred dead letters": dead.deferred,
        "transfer dead letters": transfer.ready,
        "deferred transfer dead letters": transfer.deferred,
    }


def _dumped(dump: feature.Dump, state: State) -> bytes:
    return b"".join(dump(state, None) or ())


def _compare_tables(label: str, here: MessageTable, there: MessageTable, found: Comparison) -> None:
    """Rows contain number, length, state, delivery count and times."""
    ours, theirs = _by_number(here), _by_number(there)
    if ours == theirs:
        return
    for sequence in sorted(ours.keys() | theirs.keys()):
        if ours.get(sequence) == theirs.get(sequence):
            continue
        what = "differs"
        if sequence not in ours or sequence not in theirs:
            what = f"is only in the {'source' if sequence in ours else 'target'}"
        found.differ(f"{label}: message {sequence} {what}")


def _by_number(table: MessageTable) -> dict[int, tuple[object, ...]]:
    overlays = {
        sequence: (overlay.properties, overlay.reason, overlay.description)
        for sequence, overlay in table.overlays().items()
    }
    rows = array("Q")
    for part in table.dump_rows():
        rows.frombytes(part)
    return {
        rows[at]: (*rows[at + 1 : at + COLUMNS], overlays.get(rows[at]))
        for at in range(0, len(rows), COLUMNS)
    }


def _differing_bodies(source: LaneReading, target: LaneReading, advance: Advance) -> Iterator[Ref]:
    refs = sorted({ref for ref in source.refs() if ref[1]} & set(target.refs()))
    for some in batches(refs):
        pairs = zip(some, source.bodies(some), target.bodies(some), strict=True)
        yield from (ref for ref, here, there in pairs if here != there)
        advance(len(some))


def batches(refs: list[Ref]) -> Iterator[list[Ref]]:
    """As many as are read at once."""
    rest = iter(refs)
    while some := list(islice(rest, BODIES_AT_ONCE)):
        yield some


def _holder(lane: LaneReading, ref: Ref, name: Callable[[int], str]) -> str:
    """The message that a body belongs to."""
    for fragment_id, state in lane.states.items():
        for where, table in message_tables(state).items():
            for held in table.copies(0):
                if (held.position, held.length) == ref:
                    label = f"{name(fragment_id)}, fragment {fragment_id}"
                    return f"{label}, {where}: message {held.sequence}"
    return f"position {ref[0]:#x}"
