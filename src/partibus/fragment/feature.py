"""What one feature of a fragment adds to the machine.

Owns the shape in which a feature declares itself: which commands it answers, what its durable
changes do and how they are taken back, what passing time means for it, how its records are
replayed, and which sections of a snapshot and which stored bodies are its own. The machine,
recovery and snapshots are assembled from these declarations (`machine.FEATURES`), so a new feature
is a folder with a `feature.py` and one line there. It must never hold state: that is in `State`.
"""

from collections.abc import Callable, Iterable
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
"""Tags of a snapshot's sections; like kinds, each keeps its meaning for ever."""
IDENTITIES_SECTION: Final = 2
CLAIMS_SECTION: Final = 10
CURSORS_SECTION: Final = 11
STAGES_SECTION: Final = 12
LOCKS_SECTION: Final = 20
UNPAGED_OUTBOX_SECTION: Final = 48
MARKS_SECTION: Final = 49
OUTBOX_SECTION: Final = 50


class SnapshotSection:
    """A part of a snapshot that only some fragments have."""

    def __init__(
        self, tag: int, load: Load, dump: Dump | None = None, *, at_stop: bool = False
    ) -> None:
        self.tag = tag
        self.load = load
        self.dump = dump
        """Returns None when the fragment has nothing of it. A section that only earlier releases
        wrote has no `dump`."""
        self.at_stop = at_stop
        """Written only into the last snapshot before a clean stop."""


class Feature:
    """A feature's part of the machine; what it does not name it does not take part in."""

    def __init__(
        self,
        handlers: dict[type[Command], Handler],
        changes: dict[type[Change], tuple[Commit, Abort]],
        *,
        topic_handlers: dict[type[Command], Handler] | None = None,
        on_tick: OnTick | None = None,
        deadlines: Deadlines | None = None,
        shift: Shift | None = None,
        replays: dict[int, Replay] | None = None,
        sections: tuple[SnapshotSection, ...] = (),
        tables: Tables | None = None,
        bodies: Bodies | None = None,
    ) -> None:
        self.handlers = handlers
        """Carries a command out, or prepares the change it asks for."""
        self.changes = changes
        """Makes a prepared change effective once it is durable; takes it back if it failed."""
        self.topic_handlers = topic_handlers or {}
        """What a topic does instead."""
        self.on_tick = on_tick
        """Does what is due, at most as much as the allowance permits."""
        self.deadlines = deadlines
        """When it next wants a tick; None is never. Early is allowed, late is not."""
        self.shift = shift
        """The clock was set by this many milliseconds: move intervals that are kept as moments
        along (docs/adr/0014-clock.md)."""
        self.replays = replays or {}
        """Applies a record of the log in recovery, by its kind."""
        self.sections = sections
        """Its parts of a snapshot, in the order in which they are written."""
        self.tables = tables
        """The tables whose bodies count for the size of the fragment."""
        self.bodies = bodies
        """(position, length) of its other bodies that count."""
