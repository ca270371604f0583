"""What one feature of a fragment adds to the machine.

Owns the shape in which a feature declares itself: which commands it answers, what its durable
changes do and how they are taken back, and what passing time means for it. The machine is
assembled from these declarations (`machine.FEATURES`), so a new feature is a folder with a
`feature.py` and one line there. It must never hold state: that is in `State`.
"""

from collections.abc import Callable
from typing import TypeAlias

from partibus.domain.errors import BusError
from partibus.fragment.changes import Change
from partibus.fragment.commands import Command
from partibus.fragment.effects import Effects
from partibus.fragment.state import State
from partibus.fragment.upkeep.slices import Allowance

Handler: TypeAlias = Callable[[State, Command, int, Effects], None]
Commit: TypeAlias = Callable[[State, Change, int, Effects], None]
Abort: TypeAlias = Callable[[State, Change, BusError, Effects], None]
OnTick: TypeAlias = Callable[[State, Allowance, int, Effects], None]
Deadlines: TypeAlias = Callable[[State], list[int | None]]
Shift: TypeAlias = Callable[[State, int], None]


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
