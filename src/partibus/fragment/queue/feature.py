"""The queue itself, as a feature: arrival, delivery, settlement, scheduling, browsing, expiry.

Owns its declaration, in the shape that `fragment.feature` explains; only `machine` reads it.
"""

from typing import Final

from partibus.fragment import changes, commands, records
from partibus.fragment.effects import Effects
from partibus.fragment.feature import IDENTITIES_SECTION, LOCKS_SECTION, Feature, SnapshotSection
from partibus.fragment.queue import arrivals, browsing, dispatch, recovery, scheduling, settlement
from partibus.fragment.queue.duplicates import replay_identities
from partibus.fragment.queue.expiry import expire, next_sweep_ms
from partibus.fragment.state import State
from partibus.fragment.upkeep.slices import Allowance


def on_tick(state: State, allowance: Allowance, now_ms: int, out: Effects) -> None:
    """Let locks lapse, messages expire and scheduled ones become active."""
    for subqueue in state.subqueues:
        settlement.lapse(state, subqueue, allowance, now_ms, out)
    # Messages to be forwarded expire at their destination (FWD-12).
    if not state.spec.forward_to:
        expired = state.main.ready.take_expired(now_ms, allowance.left)
        if expired:
            allowance.spend(len(expired))
            expire(state, expired, out)
    scheduling.activate_due(state, allowance, now_ms, out)
    state.history.sweep(now_ms, state.spec.duplicate_window_ms)


def deadlines(state: State) -> list[int | None]:
    """Locks, expiry, due messages, and the window of duplicate detection."""
    times = [subqueue.next_lapse_ms() for subqueue in state.subqueues]
    times.append(next_sweep_ms(state))
    times.append(state.scheduled.next_expiry_ms())
    times.append(state.history.next_sweep_ms())
    return times


def shift(state: State, delta_ms: int) -> None:
    """Locks and the window of duplicate detection are intervals."""
    for subqueue in state.subqueues:
        subqueue.shift_ms(delta_ms)
    state.history.shift_ms(delta_ms)


QUEUE: Final = Feature(
    {
        commands.Enqueue: arrivals.enqueue,
        commands.Settle: settlement.settle,
        commands.Demand: dispatch.demand,
        commands.Interest: dispatch.interest,
        commands.Detach: dispatch.detach,
        commands.Renew: settlement.renew,
        commands.CancelScheduled: scheduling.cancel,
        commands.ReceiveDeferred: browsing.receive_deferred,
        commands.Peek: browsing.peek,
        commands.Pick: browsing.pick,
        commands.Purge: browsing.purge,
        commands.Undelivered: dispatch.undelivered,
    },
    {
        changes.Arrival: (arrivals.arrived, arrivals.abort_arrival),
        changes.Activation: (scheduling.activated, scheduling.abort_activation),
        changes.Cancellation: (scheduling.cancelled, scheduling.abort_cancellation),
        changes.Removal: (settlement.removed, settlement.abort_held),
        changes.Consumption: (dispatch.consumed, dispatch.abort_consumption),
        changes.DeferredConsumption: (
            browsing.deferred_consumed,
            browsing.abort_deferred_consumption,
        ),
        changes.Return: (settlement.returned, settlement.abort_held),
        changes.Deferral: (settlement.deferred, settlement.abort_held),
        changes.DeadLettering: (settlement.dead_lettered, settlement.abort_held),
        changes.Answer: (settlement.answered, settlement.abort_answer),
    },
    on_tick=on_tick,
    deadlines=deadlines,
    shift=shift,
    replays={
        records.ENQUEUED: recovery.replay_enqueued,
        records.ENQUEUED_DUE: recovery.replay_enqueued,
        records.REMOVED: recovery.replay_removed,
        records.RETURNED: recovery.replay_returned,
        records.RETURNED_UNCOUNTED: recovery.replay_returned,
        records.DEAD_LETTERED: recovery.replay_dead_lettered,
        records.DEFERRED: recovery.replay_deferred,
        records.DEFERRED_COUNTED: recovery.replay_deferred,
        records.SCHEDULED: recovery.replay_scheduled,
        records.ACTIVATED: recovery.replay_activated,
        records.IDENTIFIED: replay_identities,
    },
    sections=(
        SnapshotSection(IDENTITIES_SECTION, recovery.load_identities, recovery.dump_identities),
        SnapshotSection(
            LOCKS_SECTION, recovery.load_kept_locks, recovery.dump_kept_locks, at_stop=True
        ),
    ),
    tables=recovery.tables,
)
