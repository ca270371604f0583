"""Stages, as a feature: what pipelines have written and not yet published.

Owns its declaration, in the shape that `fragment.feature` explains; only `machine` reads it.
"""

from collections.abc import Iterator
from typing import Final

from partibus.fragment.feature import STAGES_SECTION, Feature, SnapshotSection
from partibus.fragment.stages import behaviour, changes, commands, departures, records
from partibus.fragment.state import State


def deadlines(state: State) -> list[int | None]:
    """When the next abandoned stage expires."""
    return [] if state.stages is None else [state.stages.next_expiry_ms()]


def shift(state: State, delta_ms: int) -> None:
    """Stages last for an interval."""
    if state.stages is not None:
        state.stages.shift_ms(delta_ms)


def bodies(state: State) -> Iterator[tuple[int, int]]:
    """The messages of stages."""
    if state.stages is not None:
        yield from state.stages.bodies()


STAGES: Final = Feature(
    {
        commands.StageMessages: behaviour.stage_messages,
        commands.PublishStages: behaviour.publish_stages,
        commands.DropStages: behaviour.drop_stages,
        commands.ListWriters: behaviour.list_writers,
    },
    {
        changes.StageArrival: (behaviour.stage_arrived, behaviour.abort_stage_arrival),
        changes.StagePublication: (behaviour.stages_published, behaviour.abort_publication),
        changes.StageDrop: (behaviour.stages_dropped, behaviour.abort_drop),
        changes.StageDeparture: (departures.stage_has_departed, departures.abort_stage_departure),
    },
    on_tick=behaviour.drop_abandoned,
    deadlines=deadlines,
    shift=shift,
    replays=dict.fromkeys(records.KINDS, records.replay_stage),
    sections=(SnapshotSection(STAGES_SECTION, records.load_stages, records.dump_stages),),
    bodies=bodies,
)
