"""Cursors, as a feature: positions of pipelines, and the messages retained for them.

Owns its declaration, in the shape that `fragment.feature` explains; only `machine` reads it.
"""

from typing import Final

from partibus.fragment.cursors import behaviour, retention
from partibus.fragment.cursors.changes import CursorDrop, CursorPlacement, Trim
from partibus.fragment.cursors.commands import (
    DropCursor,
    FindTime,
    ListCursors,
    PlaceCursor,
    PlanRange,
    ReadRange,
)
from partibus.fragment.effects import Effects
from partibus.fragment.feature import CURSORS_SECTION, Feature, SnapshotSection
from partibus.fragment.state import State
from partibus.fragment.upkeep.slices import Allowance


def on_tick(state: State, allowance: Allowance, now_ms: int, out: Effects) -> None:
    """Discard what is retained beyond its time."""
    behaviour.trim(state, now_ms, out)


def deadlines(state: State) -> list[int | None]:
    """When the next retained message is to be discarded."""
    return [] if state.retention is None else [state.retention.next_trim_ms()]


CURSORS: Final = Feature(
    {
        PlaceCursor: behaviour.place_cursor,
        DropCursor: behaviour.drop_cursor,
        ListCursors: behaviour.list_cursors,
        PlanRange: behaviour.plan_range,
        FindTime: behaviour.find_time,
        ReadRange: behaviour.read_range,
    },
    {
        CursorPlacement: (behaviour.cursor_placed, behaviour.abort_placement),
        CursorDrop: (behaviour.cursor_dropped, behaviour.abort_drop),
        Trim: (behaviour.trimmed, behaviour.abort_trim),
    },
    on_tick=on_tick,
    deadlines=deadlines,
    replays=dict.fromkeys(behaviour.KINDS, behaviour.replay_cursor),
    sections=(
        SnapshotSection(CURSORS_SECTION, retention.load_retention, retention.dump_retention),
    ),
)
