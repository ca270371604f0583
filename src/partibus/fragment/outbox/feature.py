"""The outbox, as a feature: messages on their way to another entity.

Owns its declaration, in the shape that `fragment.feature` explains; only `machine` reads it.
"""

from typing import Final

from partibus.fragment.feature import (
    MARKS_SECTION,
    OUTBOX_SECTION,
    UNPAGED_OUTBOX_SECTION,
    Feature,
    SnapshotSection,
)
from partibus.fragment.outbox import departures, fencing, records, transfers
from partibus.fragment.outbox.changes import (
    BroughtBack,
    Departure,
    Fencing,
    HandedOver,
    Redirection,
    TransferArrival,
)
from partibus.fragment.outbox.commands import (
    BringBack,
    Collect,
    Fence,
    Fetch,
    Forwarded,
    ForwardWaiting,
    Redirect,
    Transfer,
)
from partibus.fragment.queue.table import MessageTable
from partibus.fragment.records import (
    BROUGHT_BACK,
    DEPARTED,
    FENCED,
    HANDED_OVER,
    REDIRECTED,
    TAKEN,
    TRANSFERRED,
)
from partibus.fragment.state import State


def tables(state: State) -> list[MessageTable]:
    """The messages in the outbox."""
    return [state.outbox.table]


OUTBOX: Final = Feature(
    {
        Collect: transfers.collect,
        Fetch: transfers.fetch,
        Forwarded: transfers.forwarded,
        BringBack: transfers.bring_back,
        Redirect: transfers.redirect,
        ForwardWaiting: transfers.forward_waiting,
        Transfer: transfers.transfer,
        Fence: fencing.fence,
    },
    {
        Departure: (departures.departed, departures.abort_departure),
        TransferArrival: (transfers.transfer_arrived, transfers.abort_transfer),
        HandedOver: (transfers.handed_over, transfers.abort_decision),
        BroughtBack: (transfers.brought_back, transfers.abort_decision),
        Redirection: (transfers.redirected, transfers.abort_decision),
        Fencing: (fencing.fenced, fencing.abort_fence),
    },
    replays={
        DEPARTED: records.replay_departed,
        TRANSFERRED: records.replay_transferred,
        HANDED_OVER: records.replay_handed_over,
        BROUGHT_BACK: records.replay_brought_back,
        REDIRECTED: records.replay_redirected,
        TAKEN: records.replay_taken,
        FENCED: records.replay_fenced,
    },
    sections=(
        SnapshotSection(UNPAGED_OUTBOX_SECTION, records.load_unpaged_outbox),
        SnapshotSection(OUTBOX_SECTION, records.load_outbox, records.dump_used_outbox),
        SnapshotSection(MARKS_SECTION, records.load_marks, records.dump_marks),
    ),
    tables=tables,
)
