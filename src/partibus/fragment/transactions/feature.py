"""Transactions, as a feature: what several commands do together, or not at all.

Owns its declaration, in the shape that `fragment.feature` explains; only `machine` reads it.
"""

from typing import Final

from partibus.fragment.feature import Feature
from partibus.fragment.records import SCHEDULED_LONG, SCHEDULED_UNDER
from partibus.fragment.transactions import behaviour, numbered_arrivals
from partibus.fragment.transactions.behaviour import Discharge, Releasing
from partibus.fragment.transactions.commands import CheckLocks, EnqueueNumbered, ReserveNumbers
from partibus.fragment.transactions.numbered_arrivals import NumberedArrival

TRANSACTIONS: Final = Feature(
    {
        CheckLocks: behaviour.check_locks,
        ReserveNumbers: numbered_arrivals.reserve_numbers,
        EnqueueNumbered: numbered_arrivals.enqueue_numbered,
    },
    {
        NumberedArrival: (numbered_arrivals.numbered_arrived, numbered_arrivals.abort_numbered),
        Releasing: (behaviour.released, behaviour.abort_release),
        Discharge: (behaviour.discharged, behaviour.abort_discharge),
    },
    replays={
        SCHEDULED_UNDER: numbered_arrivals.replay_numbered,
        SCHEDULED_LONG: numbered_arrivals.replay_numbered,
    },
)
