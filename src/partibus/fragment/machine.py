"""The fragment machine: commands and the time in, effects out.

Owns the tables that say which module answers which command, what a durable change does and
how a failed one is taken back. It is pure and synchronous: it reads no clock, calls nobody
and does no input or output, so a test, a simulator and a server drive it alike. A command
that changes durable state only prepares a `Change`; `commit` carries it out once the store
has it, `abort` takes it back. Only the broker calls it.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from partibus.domain.errors import BusError
from partibus.fragment.changes import (
    Activation,
    Answer,
    Arrival,
    Cancellation,
    Change,
    Consumption,
    DeadLettering,
    Deferral,
    DeferredConsumption,
    Removal,
    Return,
    SessionStateChange,
)
from partibus.fragment.claims import behaviour as claiming
from partibus.fragment.claims.changes import (
    Claiming,
    ClaimLapse,
    ClaimRelease,
    ClaimRenewal,
    ClaimSettlement,
)
from partibus.fragment.claims.commands import (
    ClaimMessages,
    ListClaims,
    ReadClaim,
    ReleaseClaim,
    RenewClaim,
    SettleClaim,
)
from partibus.fragment.commands import (
    AcceptSession,
    CancelScheduled,
    Command,
    Demand,
    Detach,
    DropLocks,
    Enqueue,
    FindOldestSession,
    GetSessionState,
    Interest,
    ListSessions,
    Peek,
    Purge,
    ReceiveDeferred,
    Renew,
    RenewSession,
    Resume,
    SetSessionState,
    Settle,
    Suspend,
    Tick,
    Undelivered,
)
from partibus.fragment.cursors import behaviour as cursors
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
from partibus.fragment.queue import arrivals, browsing, dispatch, scheduling, settlement
from partibus.fragment.queue.expiry import expire, next_sweep_ms
from partibus.fragment.sessions import locks as session_locks
from partibus.fragment.sessions import session_state
from partibus.fragment.spec import FragmentSpec
from partibus.fragment.stages import behaviour as staging
from partibus.fragment.stages import departures as stage_departures
from partibus.fragment.stages.changes import (
    StageArrival,
    StageDeparture,
    StageDrop,
    StagePublication,
)
from partibus.fragment.stages.commands import DropStages, ListWriters, PublishStages, StageMessages
from partibus.fragment.state import State
from partibus.fragment.topics import copies, due, publishing
from partibus.fragment.topics.changes import Copies, Publication
from partibus.fragment.topics.commands import DueUnread, PublishDue
from partibus.fragment.transactions import behaviour as transacted
from partibus.fragment.transactions import numbered_arrivals as numbered
from partibus.fragment.transactions.behaviour import Discharge, Releasing
from partibus.fragment.transactions.commands import CheckLocks, EnqueueNumbered, ReserveNumbers
from partibus.fragment.transactions.numbered_arrivals import NumberedArrival

Handler: TypeAlias = Callable[[State, Command, int, Effects], None]
Commit: TypeAlias = Callable[[State, Change, int, Effects], None]
Abort: TypeAlias = Callable[[State, Change, BusError, Effects], None]


class Machine:
    """One fragment: its state, and everything that may happen to it."""

    __slots__ = ("_handlers", "is_gone", "state", "used_ms")

    def __init__(self, state: State) -> None:
        self.state = state
        self._handlers = HANDLERS if state.topic is None else TOPIC_HANDLERS
        self.is_gone = False
        """The entity was deleted: whatever is asked is answered with an error."""
        self.used_ms = 0
        """When it was last asked for something by anybody but its broker (IDL-2)."""

    def change_spec(self, spec: FragmentSpec, now_ms: int) -> None:
        """The entity has other properties from now on; what was done by the old ones stays."""
        state = self.state
        before_ms = state.spec.lock_duration_ms
        if spec.lock_duration_ms < before_ms:
            for lane in state.lanes:
                lane.shorten_locks(now_ms, now_ms + before_ms)
        state.spec = spec

    def shift_ms(self, delta_ms: int) -> None:
        """The clock was set by so much: intervals that stand as moments move along with it.

        Moments that were promised by the time of day stay: due times of scheduled messages,
        expiry, retention. They want a `Tick` now (docs/adr/0014-clock.md)."""
        state = self.state
        self.used_ms += delta_ms
        for lane in state.lanes:
            lane.shift_ms(delta_ms)
        state.history.shift_ms(delta_ms)
        if state.sessions is not None:
            state.sessions.shift_ms(delta_ms)
        if state.claims is not None:
            state.claims.shift_ms(delta_ms)
        if state.stages is not None:
            state.stages.shift_ms(delta_ms)
        if state.topic is not None:
            state.topic.shift_ms(delta_ms)

    def apply(self, command: Command, now_ms: int, out: Effects) -> None:
        """Carry out a command, or prepare the change it asks for."""
        self._handlers[type(command)](self.state, command, now_ms, out)

    def commit(self, change: Change, now_ms: int, out: Effects) -> None:
        """The records of a prepared change are durable: make it so."""
        COMMITS[type(change)](self.state, change, now_ms, out)

    def abort(self, change: Change, error: BusError, out: Effects) -> None:
        """The store failed: leave everything as it was before the change was prepared."""
        ABORTS[type(change)](self.state, change, error, out)

    def deadline_ms(self) -> int | None:
        """When the machine next wants a `Tick`; it may come early, never late."""
        state = self.state
        if state.is_behind:
            return 0
        times = [lane.next_lapse_ms() for lane in state.lanes]
        times.append(next_sweep_ms(state))
        times.append(state.scheduled.next_expiry_ms())
        times.append(state.history.next_sweep_ms())
        if state.claims is not None:
            times.append(state.claims.next_lapse_ms())
        if state.retention is not None:
            times.append(state.retention.next_trim_ms())
        if state.stages is not None:
            times.append(state.stages.next_expiry_ms())
        return min([time_ms for time_ms in times if time_ms is not None], default=None)


def tick(state: State, command: Command, now_ms: int, out: Effects) -> None:
    """Let locks lapse, messages expire and scheduled ones become active: a slice of them."""
    assert isinstance(command, Tick)
    allowance = command.allowance
    for lane in state.lanes:
        settlement.lapse(state, lane, allowance, now_ms, out)
    if state.sessions is not None:
        session_locks.lapse_sessions(state, allowance, now_ms, out)
    # What is about to be forwarded expires at its destination (FWD-12).
    if not state.spec.forward_to:
        expired = state.main.ready.take_expired(now_ms, allowance.left)
        if expired:
            allowance.spend(len(expired))
            expire(state, expired, out)
    scheduling.activate_due(state, allowance, now_ms, out)
    claiming.lapse_claims(state, allowance, now_ms, out)
    cursors.trim(state, now_ms, out)
    staging.drop_abandoned(state, allowance, now_ms, out)
    state.history.sweep(now_ms, state.spec.duplicate_window_ms)
    was_behind, state.is_behind = state.is_behind, not allowance.left
    if was_behind and not state.is_behind:
        dispatch.caught_up(state, now_ms, out)


def suspend(state: State, command: Command, now_ms: int, out: Effects) -> None:
    """The store is down: hand nothing out."""
    state.suspended = True
    if state.is_behind:
        # Nothing is ticked now; the store's return brings a tick.
        state.is_behind = False
        dispatch.answer_drains(state, out)


def resume(state: State, command: Command, now_ms: int, out: Effects) -> None:
    """The store answers again."""
    state.suspended = False
    for lane in state.lanes:
        dispatch.dispatch(state, lane, now_ms, out)
    departures.serve_collector(state, out)
    stage_departures.depart_published(state, out)


HANDLERS: Final[dict[type[Command], Handler]] = {
    Enqueue: arrivals.enqueue,
    Settle: settlement.settle,
    Demand: dispatch.demand,
    Interest: dispatch.interest,
    Detach: dispatch.detach,
    Renew: settlement.renew,
    DropLocks: session_locks.drop_locks,
    CancelScheduled: scheduling.cancel,
    ReceiveDeferred: browsing.receive_deferred,
    Peek: browsing.peek,
    Purge: browsing.purge,
    Tick: tick,
    Undelivered: dispatch.undelivered,
    Suspend: suspend,
    Resume: resume,
    AcceptSession: session_locks.accept,
    FindOldestSession: session_locks.find_oldest,
    RenewSession: session_locks.renew_session,
    GetSessionState: session_state.get_state,
    SetSessionState: session_state.set_state,
    ListSessions: session_state.list_sessions,
    CheckLocks: transacted.check_locks,
    ReserveNumbers: numbered.reserve_numbers,
    EnqueueNumbered: numbered.enqueue_numbered,
    Collect: transfers.collect,
    Fetch: transfers.fetch,
    Forwarded: transfers.forwarded,
    BringBack: transfers.bring_back,
    Redirect: transfers.redirect,
    ForwardWaiting: transfers.forward_waiting,
    Transfer: transfers.transfer,
    Seal: sealing.seal,
    ClaimMessages: claiming.claim_messages,
    RenewClaim: claiming.renew_claim,
    SettleClaim: claiming.settle_claim,
    ReleaseClaim: claiming.release_claim,
    ReadClaim: claiming.read_claim,
    ListClaims: claiming.list_claims,
    PlaceCursor: cursors.place_cursor,
    DropCursor: cursors.drop_cursor,
    ListCursors: cursors.list_cursors,
    PlanRange: cursors.plan_range,
    FindTime: cursors.find_time,
    ReadRange: cursors.read_range,
    StageMessages: staging.stage_messages,
    PublishStages: staging.publish_stages,
    DropStages: staging.drop_stages,
    ListWriters: staging.list_writers,
}

TOPIC_HANDLERS: Final[dict[type[Command], Handler]] = {
    **HANDLERS,
    Enqueue: publishing.publish,
    Tick: due.topic_tick,
    PublishDue: due.publish_due,
    DueUnread: due.due_unread,
}
"""A topic holds nothing for receivers: its messages go on to its subscriptions (ENT-4)."""

COMMITS: Final[dict[type[Change], Commit]] = {
    Arrival: arrivals.arrived,
    Activation: scheduling.activated,
    Cancellation: scheduling.cancelled,
    Removal: settlement.removed,
    Consumption: dispatch.consumed,
    DeferredConsumption: browsing.deferred_consumed,
    Return: settlement.returned,
    Deferral: settlement.deferred,
    DeadLettering: settlement.dead_lettered,
    Answer: settlement.answered,
    SessionStateChange: session_state.state_was_set,
    NumberedArrival: numbered.numbered_arrived,
    Releasing: transacted.released,
    Discharge: transacted.discharged,
    Departure: departures.departed,
    TransferArrival: transfers.transfer_arrived,
    HandedOver: transfers.handed_over,
    BroughtBack: transfers.brought_back,
    Redirection: transfers.redirected,
    Sealing: sealing.sealed,
    Publication: due.publication_durable,
    Copies: copies.copies_arrived,
    Claiming: claiming.claim_taken,
    ClaimRenewal: claiming.claim_renewed,
    ClaimSettlement: claiming.claim_settled,
    ClaimRelease: claiming.claim_released,
    ClaimLapse: claiming.claim_lapsed,
    CursorPlacement: cursors.cursor_placed,
    CursorDrop: cursors.cursor_dropped,
    Trim: cursors.trimmed,
    StageArrival: staging.stage_arrived,
    StagePublication: staging.stages_published,
    StageDrop: staging.stages_dropped,
    StageDeparture: stage_departures.stage_has_departed,
}

ABORTS: Final[dict[type[Change], Abort]] = {
    Arrival: arrivals.abort_arrival,
    Activation: scheduling.abort_activation,
    Cancellation: scheduling.abort_cancellation,
    Removal: settlement.abort_held,
    Consumption: dispatch.abort_consumption,
    DeferredConsumption: browsing.abort_deferred_consumption,
    Return: settlement.abort_held,
    Deferral: settlement.abort_held,
    DeadLettering: settlement.abort_held,
    Answer: settlement.abort_answer,
    SessionStateChange: session_state.abort_state,
    NumberedArrival: numbered.abort_numbered,
    Releasing: transacted.abort_release,
    Discharge: transacted.abort_discharge,
    Departure: departures.abort_departure,
    TransferArrival: transfers.abort_transfer,
    HandedOver: transfers.abort_decision,
    BroughtBack: transfers.abort_decision,
    Redirection: transfers.abort_decision,
    Sealing: sealing.abort_seal,
    Publication: due.publication_failed,
    Copies: copies.abort_copies,
    Claiming: claiming.abort_claim,
    ClaimRenewal: claiming.abort_renewal,
    ClaimSettlement: claiming.abort_claim_settlement,
    ClaimRelease: claiming.abort_release,
    ClaimLapse: claiming.abort_lapse,
    CursorPlacement: cursors.abort_placement,
    CursorDrop: cursors.abort_drop,
    Trim: cursors.abort_trim,
    StageArrival: staging.abort_stage_arrival,
    StagePublication: staging.abort_publication,
    StageDrop: staging.abort_drop,
    StageDeparture: stage_departures.abort_stage_departure,
}
