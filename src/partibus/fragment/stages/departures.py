"""Published stages enter the outbox, some messages at a time.

Owns the pace: a batch of millions is published by one small record, and enters the outbox as fast
as the courier empties it, so that neither the turn nor the outbox grows with it. The order is that
of publication, of the stages named by it, and of the messages in them. Called when something was
published, when parcels have left the outbox, when the courier asks (which it does after a restart),
and when the store answers again.
"""

from typing import Final

from partibus.domain.errors import BusError
from partibus.fragment.changes import Change
from partibus.fragment.effects import Effects
from partibus.fragment.outbox.departures import serve_collector, take_outbox_numbers_back
from partibus.fragment.outbox.state import Purpose
from partibus.fragment.stages.changes import StageDeparture
from partibus.fragment.stages.records import depart, stage_departed
from partibus.fragment.state import State

DEPARTURE_MESSAGES_MAX: Final = 1000
OUTBOX_MESSAGES_MAX: Final = 4000
"""No more messages follow while this many wait for the courier."""


def depart_published(state: State, out: Effects) -> None:
    """Prepare the next messages for the outbox, unless it has enough."""
    stages = state.stages
    if stages is None or not stages.published or state.suspended:
        return
    stage, outbox = stages.published[0], state.outbox
    if stage.departing or len(outbox) >= OUTBOX_MESSAGES_MAX:
        return
    if not outbox.has_room_for(Purpose.TRANSFER, stage.path):
        return
    count = min(len(stage.table), DEPARTURE_MESSAGES_MAX)
    first = outbox.next_number
    outbox.next_number = first + count
    stage.departing = count
    record = stage_departed(state.fragment_id, stage, first, count)
    out.changes.append(StageDeparture([record], stage, count, first))


def stage_has_departed(state: State, change: Change, now_ms: int, out: Effects) -> None:
    """The messages are in the outbox."""
    assert isinstance(change, StageDeparture)
    stages = state.stages
    assert stages is not None
    change.stage.departing = 0
    depart(state, stages, change.first_number, change.count)
    state.outbox.next_number_durable = change.first_number + change.count
    serve_collector(state, out)
    depart_published(state, out)


def abort_stage_departure(state: State, change: Change, error: BusError, out: Effects) -> None:
    """The store failed: the messages wait where they were."""
    assert isinstance(change, StageDeparture)
    change.stage.departing = 0
    take_outbox_numbers_back(state, change.first_number)
