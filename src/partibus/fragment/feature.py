"""What one feature of a fragment adds to the machine.

Owns the shape in which a feature declares itself: which commands it answers, what its durable
changes do and how they are undone, what passing time means for it, how its records are replayed,
and which sections of a snapshot and which stored bodies are its own. The machine, recovery and
snapshots are assembled from these declarations (`machine.FEATURES`), so a new feature is a folder
with a `feature.py` and one line there. It must never hold state: that is in `State`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from partibus.domain.errors import BusError
from partibus.fragment.changes import Change
from partibus.fragment.commands import Command
from partibus.fragment.effects import Effects
from partibus.fragment.paging import NewPages
from partibus.fragment.queue.history import Part
from partibus.fragment.queue.table import MessageTable
from partibus.fragment.state import State
from partibus.fragment.table_snapshot import TableReader
from partibus.fragment.upkeep.slices import Allowance

Handler: TypeAlias = Callable[[State, Command, int, Effects], None]
Commit: TypeAlias = Callable[[State, Change, int, Effects], None]
Abort: TypeAlias = Callable[[State, Change, BusError, Effects], None]
OnTick: TypeAlias = Callable[[State, Allowance, int, Effects], None]
Deadlines: TypeAlias = Callable[[State], list[int | None]]
Shift: TypeAlias = Callable[[State, int], None]
Replay: TypeAlias = Callable[[State, int, bytes, int, int], None]
"""Called with kind, meta, and the position and length of the body."""
Dump: TypeAlias = Callable[[State, NewPages | None], list[Part] | None]
Load: TypeAlias = Callable[[State, bytes, TableReader], None]
Tables: TypeAlias = Callable[[State], list[MessageTable]]
Bodies: TypeAlias = Callable[[State], Iterable[tuple[int, int]]]

SESSIONS_SECTION: Final = 1
"""Tags of a snapshot's sections; like kinds, each keeps its meaning forever."""
IDENTITIES_SECTION: Final = 2
CLAIMS_SECTION: Final = 10
CURSORS_SECTION: Final = 11
STAGES_SECTION: Final = 12
LOCKS_SECTION: Final = 20
UNPAGED_OUTBOX_SECTION: Final = 48
MARKS_SECTION: Final = 49
OUTBOX_SECTION: Final = 50


@dataclass(eq=False)
class SnapshotSection:
    """A part of a snapshot that only some fragments have."""

    tag: int
    load: Load
    dump: Dump | None = None
    """Returns None when the fragment has no such section. A section that only earlier releases
    wrote has no `dump`."""
    at_stop: bool = False
    """Written only into the last snapshot before a clean stop."""


@dataclass(eq=False)
class Feature:
    """A feature's part of the machine; defaults mean that it takes no part."""

    handlers: dict[type[Command], Handler]
    """Carries a command out, or prepares the change it asks for."""
    changes: dict[type[Change], tuple[Commit, Abort]]
    """Makes a prepared change effective once it is durable, or undoes it if the store failed."""
    topic_handlers: dict[type[Command], Handler] = field(default_factory=dict)
    """What a topic does instead."""
    on_tick: OnTick | None = None
    """Does what is due, at most as much as the allowance permits."""
    deadlines: Deadlines | None = None
    """When it next wants a tick; None is never. Early is allowed, late is not."""
    shift: Shift | None = None
    """The clock was set by this many milliseconds: move intervals that are kept as moments
    along (docs/adr/0014-clock.md)."""
    replays: dict[int, Replay] = field(default_factory=dict)
    """Applies a record of the log in recovery, by its kind."""
    sections: tuple[SnapshotSection, ...] = ()
    """Its parts of a snapshot, in the order in which they are written."""
    tables: Tables | None = None
    """The tables whose bodies count for the size of the fragment."""
    bodies: Bodies | None = None
    """(position, length) of its other bodies that count."""
