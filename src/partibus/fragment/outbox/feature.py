"""The outbox, as a feature: messages on their way to another entity.

Owns the declaration from which the machine takes this feature: its commands, its durable
changes and what passing time means for it. The behaviour itself is in the modules beside it;
nothing but `machine` reads this one.
"""

from typing import Final

from partibus.fragment.feature import Feature
from partibus.fragment.outbox import departures, sealing, transfers
from partibus.fragment.outbox.changes import (
    BroughtBack,
    Departure,
    HandedOver,
    Redirection,
    Sealing,
    TransferArrival,
)
from partibus.fragment.outbox.commands import (
    BringBack,
    Collect,
    Fetch,
    Forwarded,
    ForwardWaiting,
    Redirect,
    Seal,
    Transfer,
)

OUTBOX: Final = Feature(
    {
        Collect: transfers.collect,
        Fetch: transfers.fetch,
        Forwarded: transfers.forwarded,
        BringBack: transfers.bring_back,
        Redirect: transfers.redirect,
        ForwardWaiting: transfers.forward_waiting,
        Transfer: transfers.transfer,
        Seal: sealing.seal,
    },
    {
        Departure: (departures.departed, departures.abort_departure),
        TransferArrival: (transfers.transfer_arrived, transfers.abort_transfer),
        HandedOver: (transfers.handed_over, transfers.abort_decision),
        BroughtBack: (transfers.brought_back, transfers.abort_decision),
        Redirection: (transfers.redirected, transfers.abort_decision),
        Sealing: (sealing.sealed, sealing.abort_seal),
    },
)
