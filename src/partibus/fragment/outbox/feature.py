"""The outbox, as a feature: messages on their way to another entity.

Owns its declaration, in the shape that `fragment.feature` explains; only `machine` reads it.
"""

from typing import Final

from partibus.fragment import records as kinds
from partibus.fragment.feature import (
    MARKS_SECTION,
    OUTBOX_SECTION,
    UNPAGED_OUTBOX_SECTION,
    Feature,
    SnapshotSection,
)
from partibus.fragment.outbox import changes, commands, departures, fencing, records, transfers
from partibus.fragment.queue.table import MessageTable
from partibus.fragment.state import State


def tables(state: State) -> list[MessageTable]:
    """The messages in the outbox."""
    return [state.outbox.table]


OUTBOX: Final = Feature(
    {
        commands.Collect: transfers.collect,
        commands.Fetch: transfers.fetch,
        commands.Forwarded: transfers.forwarded,
        commands.ReturnParcels: transfers.return_parcels,
        commands.Redirect: transfers.redirect,
        commands.ForwardWaiting: transfers.forward_waiting,
        commands.Transfer: transfers.transfer,
        commands.Fence: fencing.fence,
    },
    {
        changes.Departure: (departures.departed, departures.abort_departure),
        changes.TransferArrival: (transfers.transfer_arrived, transfers.abort_transfer),
        changes.HandedOver: (transfers.handed_over, transfers.abort_decision),
        changes.ParcelsReturned: (transfers.parcels_returned, transfers.abort_decision),
        changes.Redirection: (transfers.redirected, transfers.abort_decision),
        changes.Fencing: (fencing.fenced, fencing.abort_fence),
    },
    replays={
        kinds.DEPARTED: records.replay_departed,
        kinds.TRANSFERRED: records.replay_transferred,
        kinds.HANDED_OVER: records.replay_handed_over,
        kinds.PARCELS_RETURNED: records.replay_parcels_returned,
        kinds.REDIRECTED: records.replay_redirected,
        kinds.TAKEN: records.replay_taken,
        kinds.FENCED: records.replay_fenced,
    },
    sections=(
        SnapshotSection(UNPAGED_OUTBOX_SECTION, records.load_unpaged_outbox),
        SnapshotSection(OUTBOX_SECTION, records.load_outbox, records.dump_used_outbox),
        SnapshotSection(MARKS_SECTION, records.load_marks, records.dump_marks),
    ),
    tables=tables,
)
