"""Cursors, as a feature: positions of pipelines, and the messages retained for them.

Owns its declaration, in the shape that `fragment.feature` explains; only `machine` reads it.
"""

from typing import Final

from partibus.fragment.cursors import behaviour, changes, commands, retention
from partibus.fragment.feature import CURSORS_SECTION, Feature, SnapshotSection
from partibus.fragment.state import State


def deadlines(state: State) -> list[int | None]:
    """When the next retained message is to be discarded."""
    return [] if state.retention is None else [state.retention.next_trim_ms()]


CURSORS: Final = Feature(
    {
        commands.PlaceCursor: behaviour.place_cursor,
        commands.DropCursor: behaviour.drop_cursor,
        commands.ListCursors: behaviour.list_cursors,
        commands.PlanRange: behaviour.plan_range,
        commands.FindTime: behaviour.find_time,
        commands.ReadRange: behaviour.read_range,
    },
    {
        changes.CursorPlacement: (behaviour.cursor_placed, behaviour.abort_cursor),
        changes.CursorDrop: (behaviour.cursor_dropped, behaviour.abort_cursor),
        changes.Trim: (behaviour.trimmed, behaviour.abort_trim),
    },
    on_tick=behaviour.trim,
    deadlines=deadlines,
    replays=dict.fromkeys(behaviour.KINDS, behaviour.replay_cursor),
    sections=(
        SnapshotSection(CURSORS_SECTION, retention.load_retention, retention.dump_retention),
    ),
)
