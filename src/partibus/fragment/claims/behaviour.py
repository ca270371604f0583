"""Claims: a pipeline takes messages, reads them as often as it must, and settles them at once.

Owns what an owner may do with its claim and what happens when its time is up. Claimed messages are
like locked ones to everybody else: not available, not expired by their time to live, counted as
active. A change of a claim is answered when it is durable; until then no other change of the same
owner begins.
"""

from typing import Final

from partibus.domain.errors import (
    BusError,
    ClaimFenced,
    ClaimLost,
    EntityNotFound,
    InvalidOperation,
    QuotaExceeded,
    ServerBusy,
    StoreUnavailable,
)
from partibus.fragment.changes import Change
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
from partibus.fragment.claims.records import (
    claim_record,
    claims_of,
    drop,
    end_record,
    give_back,
    lapse_now,
)
from partibus.fragment.claims.state import OWNERS_MAX, Claim, runs_of
from partibus.fragment.commands import Command
from partibus.fragment.cursors.retention import keep
from partibus.fragment.effects import Answered, Done, Effects, Failed, Found
from partibus.fragment.message import Held, as_many_as_fit
from partibus.fragment.queue.dispatch import dispatch
from partibus.fragment.queue.expiry import dead_letter, expire
from partibus.fragment.queue.settlement import TOO_MANY_DELIVERIES
from partibus.fragment.records import (
    CLAIM_LAPSED,
    CLAIM_RELEASED,
    CLAIM_RENEWED,
    CLAIM_SETTLED,
    CLAIMED,
)
from partibus.fragment.state import State
from partibus.fragment.upkeep.slices import Allowance

_BUSY: Final = "Another change to this claim is under way; try again."


# --- taking ---------------------------------------------------------------------------------------


def claim_messages(state: State, command: Command, now_ms: int, out: Effects) -> None:
    """Hold messages for an owner, or return the claim it already has."""
    assert isinstance(command, ClaimMessages)
    claims = claims_of(state)
    claim = claims.by_owner.get(command.owner)
    refusal = _refusal(state, claim, command.epoch)
    if refusal is None and claim is None and len(claims.by_owner) >= OWNERS_MAX:
        refusal = QuotaExceeded(
            f"'{state.spec.path}' has {OWNERS_MAX} claim owners, the maximum; "
            "forget one with `partibus claim release --forget`."
        )
    if refusal is not None:
        out.outward.append(Failed(command.port, refusal))
        return
    claim = claims.of(command.owner)
    is_same = claim.start == command.start and command.start != ""
    expires_ms = now_ms + command.duration_ms
    if is_same and claim.is_live:
        _renew(state, claim, command, expires_ms, out)
    elif is_same and claim.is_lapsed:
        _claim_again(state, claim, command, expires_ms, out)
    else:
        _claim_new(state, claim, command, expires_ms, now_ms, out)


def _claim_new(
    state: State, claim: Claim, command: ClaimMessages, expires_ms: int, now_ms: int, out: Effects
) -> None:
    expired: list[Held] = []
    taken = _take(state, command, now_ms, expired)
    if expired:
        expire(state, expired, out)
    if taken or claim.is_live:
        _prepare(state, claim, command, taken, expires_ms, out)
    else:
        claim.clear()
        claim.expires_ms = expires_ms
        out.outward.append(Answered(command.port.claimed, claim.summary()))


def _take(state: State, command: ClaimMessages, now_ms: int, expired: list[Held]) -> list[Held]:
    """The oldest messages within both limits; one message is always within them."""
    ready = state.main.ready
    taken: list[Held] = []
    byte_count = 0
    while len(taken) < command.count_max and len(ready):
        held = ready.pop()
        if 0 < held.expires_ms <= now_ms:
            expired.append(held)
            continue
        byte_count += held.length
        if taken and byte_count > command.byte_count_max:
            ready.insert(held)
            break
        taken.append(held)
    return taken


def _claim_again(
    state: State, claim: Claim, command: ClaimMessages, expires_ms: int, out: Effects
) -> None:
    """Take a lapsed claim back; lost when others have touched its messages."""
    taken = _take_back(state, claim)
    if taken is None:
        out.outward.append(Failed(command.port, ClaimLost()))
    else:
        _prepare(state, claim, command, taken, expires_ms, out)


def _take_back(state: State, claim: Claim) -> list[Held] | None:
    ready = state.main.ready
    taken: list[Held] = []
    for sequence in claim.sequences():
        held = ready.take(sequence)
        if held is None:
            for other in taken:
                ready.insert(other)
            return None
        taken.append(held)
    return taken


def _prepare(
    state: State,
    claim: Claim,
    command: ClaimMessages,
    taken: list[Held],
    expires_ms: int,
    out: Effects,
) -> None:
    state.main.leave(taken)
    claim.begin_change()
    runs = runs_of([held.sequence for held in taken]).tobytes()
    record = claim_record(state, CLAIMED, claim, command.start, command.epoch, expires_ms, runs)
    out.changes.append(Claiming([record], claim, command, taken, expires_ms))


def claim_taken(state: State, change: Change, now_ms: int, out: Effects) -> None:
    """The claim is durable."""
    assert isinstance(change, Claiming)
    claim, command = change.claim, change.command
    freed = []
    if claim.start != command.start:
        freed = give_back(state, claim, 0)
    claim.start, claim.is_lapsed = command.start, False
    claim.runs = runs_of([])
    for held in change.messages:
        state.main.let_go(held)
        claim.table.insert(held)
        claim.byte_count += held.length
    claim.hold_until(command.epoch, change.expires_ms)
    out.outward.append(Answered(command.port.claimed, claim.summary()))
    if freed:
        dispatch(state, state.main, now_ms, out)


def abort_claim(state: State, change: Change, error: BusError, out: Effects) -> None:
    """The store failed: the claim is as before, and messages still wait, or stay claimed."""
    assert isinstance(change, Claiming | ClaimRenewal | ClaimSettlement | ClaimRelease)
    if isinstance(change, Claiming | ClaimSettlement):
        state.main.stay(change.messages)
    change.claim.busy = False
    out.outward.append(Failed(change.command.port, error))


# --- holding --------------------------------------------------------------------------------------


def renew_claim(state: State, command: Command, now_ms: int, out: Effects) -> None:
    """Hold a claim for longer; one that has lapsed is claimed again, not renewed."""
    assert isinstance(command, RenewClaim)
    claim = claims_of(state).by_owner.get(command.owner)
    refusal = _refusal(state, claim, command.epoch)
    if refusal is None and (claim is None or not claim.is_live or claim.start != command.start):
        refusal = ClaimLost()
    if refusal is not None or claim is None:
        out.outward.append(Failed(command.port, refusal or ClaimLost()))
        return
    _renew(state, claim, command, now_ms + command.duration_ms, out)


def _renew(
    state: State, claim: Claim, command: ClaimMessages | RenewClaim, expires_ms: int, out: Effects
) -> None:
    claim.begin_change()
    record = claim_record(state, CLAIM_RENEWED, claim, claim.start, command.epoch, expires_ms)
    out.changes.append(ClaimRenewal([record], claim, command, expires_ms))


def claim_renewed(state: State, change: Change, now_ms: int, out: Effects) -> None:
    """The new end is durable."""
    assert isinstance(change, ClaimRenewal)
    claim, command = change.claim, change.command
    claim.hold_until(command.epoch, change.expires_ms)
    out.outward.append(Answered(command.port.claimed, claim.summary()))


def read_claim(state: State, command: Command, now_ms: int, out: Effects) -> None:
    """Copies of claimed messages; readable any number of times by anyone who knows the claim."""
    assert isinstance(command, ReadClaim)
    claim = claims_of(state).by_owner.get(command.owner)
    if state.suspended:
        out.outward.append(Failed(command.port, StoreUnavailable()))
        return
    if claim is None or not claim.is_live or claim.start != command.start:
        out.outward.append(Failed(command.port, ClaimLost()))
        return
    copies = claim.table.copies(command.from_sequence)
    found = as_many_as_fit(copies, command.count_max, command.byte_count_max)
    out.outward.append(Found(command.port, found, False))


def list_claims(state: State, command: Command, now_ms: int, out: Effects) -> None:
    """Every owner with its claim."""
    assert isinstance(command, ListClaims)
    claims = [] if state.claims is None else list(state.claims.by_owner.values())
    out.outward.append(Answered(command.port.claims_listed, [claim.summary() for claim in claims]))


# --- ends -----------------------------------------------------------------------------------------


def settle_claim(state: State, command: Command, now_ms: int, out: Effects) -> None:
    """Complete all messages that an owner holds; a claim that is already settled answers 0."""
    assert isinstance(command, SettleClaim)
    claim = claims_of(state).by_owner.get(command.owner)
    refusal = _refusal(state, claim, command.epoch)
    if refusal is not None:
        out.outward.append(Failed(command.port, refusal))
        return
    if claim is None or claim.start != command.start or not (claim.is_live or claim.is_lapsed):
        out.outward.append(Done(command.port, 0))
        return
    taken: list[Held] = []
    if claim.is_lapsed:
        found = _take_back(state, claim)
        if found is None:
            out.outward.append(Failed(command.port, ClaimLost()))
            return
        taken = found
        state.main.leave(taken)
    claim.busy = True
    record = end_record(state, CLAIM_SETTLED, claim, command.epoch)
    out.changes.append(ClaimSettlement([record], claim, command, taken))


def claim_settled(state: State, change: Change, now_ms: int, out: Effects) -> None:
    """The messages are gone for good."""
    assert isinstance(change, ClaimSettlement)
    claim = change.claim
    for held in change.messages:
        state.main.let_go(held)
    claim.is_lapsed = False
    messages = change.messages + drop(state, claim)
    for held in messages:
        state.size_bytes -= held.length
    keep(state, messages, out)
    out.released.extend(messages)
    claim.epoch, claim.busy = change.command.epoch, False
    out.outward.append(Done(change.command.port, len(messages)))


def release_claim(state: State, command: Command, now_ms: int, out: Effects) -> None:
    """Release everything at once."""
    assert isinstance(command, ReleaseClaim)
    claim = claims_of(state).by_owner.get(command.owner)
    if claim is None:
        _release_nothing(state, command, out)
        return
    epoch = claim.epoch + 1 if command.epoch is None else command.epoch
    refusal = _refusal(state, claim, epoch)
    if refusal is not None:
        out.outward.append(Failed(command.port, refusal))
        return
    claim.busy = True
    record = end_record(state, CLAIM_RELEASED, claim, epoch, bytes((command.forget,)))
    out.changes.append(ClaimRelease([record], claim, command, epoch))


def _release_nothing(state: State, command: ReleaseClaim, out: Effects) -> None:
    """An owner without a claim has nothing to release; an operator may have mistyped its name."""
    if command.epoch is None:
        text = f"'{state.spec.path}' has no owner of claims '{command.owner}'."
        refusal: BusError | None = EntityNotFound(text)
    else:
        refusal = _refusal(state, None, command.epoch)
    out.outward.append(Done(command.port, 0) if refusal is None else Failed(command.port, refusal))


def claim_released(state: State, change: Change, now_ms: int, out: Effects) -> None:
    """The messages wait again, as if they had never been claimed."""
    assert isinstance(change, ClaimRelease)
    claim, command = change.claim, change.command
    messages = give_back(state, claim, 0)
    claim.epoch, claim.busy = change.epoch, False
    if command.forget:
        del claims_of(state).by_owner[claim.owner]
    out.outward.append(Done(command.port, len(messages)))
    dispatch(state, state.main, now_ms, out)


def lapse_claims(state: State, allowance: Allowance, now_ms: int, out: Effects) -> None:
    """Claims whose time is up give their messages back, each as a whole."""
    if state.claims is None:
        return
    for claim in state.claims.lapsed(now_ms):
        if not allowance.left:
            return
        allowance.spend(len(claim.table) + 1)
        claim.busy = True
        record = end_record(state, CLAIM_LAPSED, claim, claim.epoch)
        out.changes.append(ClaimLapse([record], claim))


def claim_lapsed(state: State, change: Change, now_ms: int, out: Effects) -> None:
    """The messages wait again; a delivery is counted, and the limit observed (DLV-2)."""
    assert isinstance(change, ClaimLapse)
    change.claim.busy = False
    most = state.spec.max_delivery_count
    spent = []
    for held in lapse_now(state, change.claim):
        if held.delivery_count >= most:
            last = state.main.ready.take(held.sequence)
            assert last is not None
            spent.append(last)
    if spent:
        state.main.leave(spent)
        dead_letter(state, spent, TOO_MANY_DELIVERIES, False, out)
    dispatch(state, state.main, now_ms, out)


def abort_lapse(state: State, change: Change, error: BusError, out: Effects) -> None:
    """The store failed: the claim lapses when the store is back."""
    assert isinstance(change, ClaimLapse)
    change.claim.busy = False


# --- who may --------------------------------------------------------------------------------------


def _refusal(state: State, claim: Claim | None, epoch: int) -> BusError | None:
    if state.sessions is not None:
        return InvalidOperation(
            f"'{state.spec.path}' requires sessions; its messages are received by session and "
            "cannot be claimed. Read them with a cursor."
        )
    if state.suspended:
        return StoreUnavailable()
    if claim is not None and claim.epoch > epoch:
        return ClaimFenced(
            f"Run {claim.epoch} of the owner '{claim.owner}' has replaced run {epoch}, "
            "which must end."
        )
    return ServerBusy(_BUSY) if claim is not None and claim.busy else None
