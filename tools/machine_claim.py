"""The search for what may happen to one claim: its states, and the commands that are tried.

Called by `machine_page`. One owner, few messages, and a receiver that may take what the claim does
not hold.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

import machine_message as message
from machine_message import NOBODY
from machine_search import NOTHING, Subject, World

from partibus.fragment.claims.commands import (
    ClaimMessages,
    ListClaims,
    ReadClaim,
    ReleaseClaim,
    RenewClaim,
    SettleClaim,
)
from partibus.fragment.claims.state import Claim
from partibus.fragment.commands import Command, Enqueue, Outcome, Resume, Settle, Suspend, Tick
from partibus.fragment.message import NewMessage
from partibus.fragment.spec import FragmentSpec

RUNS_MAX: Final = 2
"""Runs of the pipeline that are tried."""
MESSAGES_MAX: Final = 2
STARTS: Final = ("s", "t")


def claim_of(world: World) -> Claim | None:
    """The claim of the owner."""
    claims = world.state.claims
    return None if claims is None else claims.by_owner.get("o")


def place(world: World) -> str:
    """The state of the claim."""
    claim = claim_of(world)
    if claim is None:
        return NOTHING
    if claim.is_live:
        return "held"
    return "lapsed" if claim.is_lapsed else "empty"


def start(world: World) -> str:
    """The start of the claim."""
    claim = claim_of(world)
    return (claim.start if claim is not None else "") or STARTS[0]


def other(at: str) -> str:
    """Another start."""
    return STARTS[at == STARTS[0]]


def still_waits(world: World) -> bool:
    """Whether a claim that lapsed can be taken back."""
    claim = claim_of(world)
    return claim is not None and all(
        number in world.state.main.ready for number in claim.sequences()
    )


def epoch(world: World) -> int:
    """That of the latest run."""
    claim = claim_of(world)
    return max(1, 0 if claim is None else claim.epoch)


# --- commands -----------------------------------------------------------------------------------


def enqueue(world: World) -> Command | None:
    """A message is sent."""
    if len(list(message.places(world))) >= MESSAGES_MAX:
        return None
    return Enqueue(NOBODY, [NewMessage(b"m", -1)], [1], 1)


def of_run(make: Callable[[int, str], Command], world: World, later: int = 0) -> Command | None:
    """A command of the owner, in its latest run or in one before or after that."""
    number = epoch(world) + later
    return make(number, start(world)) if 1 <= number <= RUNS_MAX else None


def claiming(number: int, at: str) -> Command:
    """Claim messages in a run, under this start."""
    return ClaimMessages(NOBODY, "o", number, at, 9, 999, message.CLAIM_MS)


def renewal(number: int, at: str) -> Command:
    """Renew the claim."""
    return RenewClaim(NOBODY, "o", number, at, message.CLAIM_MS)


def settlement(number: int, at: str) -> Command:
    """Complete what is claimed."""
    return SettleClaim(NOBODY, "o", number, at)


def release(number: int, at: str) -> Command:
    """Give back what is claimed."""
    return ReleaseClaim(NOBODY, "o", number, forget=False)


def settle_message(world: World, outcome: Outcome) -> Command | None:
    """The receiver that took the message settles it."""
    for token in world.state.main.locks:
        return Settle(None, None, message.subqueue_of(world), [token], outcome)
    return None


COMMANDS: Final[dict[str, Callable[[World], Command | None]]] = {
    "ClaimMessages": partial(of_run, claiming),
    "ClaimMessages, another start": partial(of_run, lambda number, at: claiming(number, other(at))),
    "ClaimMessages, a later run": partial(of_run, claiming, later=1),
    "ClaimMessages, an earlier run": partial(of_run, claiming, later=-1),
    "RenewClaim": partial(of_run, renewal),
    "RenewClaim, another start": partial(of_run, lambda number, at: renewal(number, other(at))),
    "RenewClaim, an earlier run": partial(of_run, renewal, later=-1),
    "SettleClaim": partial(of_run, settlement),
    "SettleClaim, another start": partial(of_run, lambda number, at: settlement(number, other(at))),
    "SettleClaim, an earlier run": partial(of_run, settlement, later=-1),
    "ReleaseClaim": partial(of_run, release),
    "ReleaseClaim, an earlier run": partial(of_run, release, later=-1),
    "ReleaseClaim, and forget the owner": lambda world: ReleaseClaim(
        NOBODY, "o", epoch(world), forget=True
    ),
    "ReadClaim": lambda world: ReadClaim(NOBODY, "o", start(world), 0, 9, 999),
    "ListClaims": lambda world: ListClaims(NOBODY),
    "Tick": lambda world: Tick(),
    "Suspend": lambda world: Suspend(),
    "Resume": lambda world: Resume(),
    "Enqueue": enqueue,
    "Demand": partial(message.demand, deletes=False),
    "Settle, complete": partial(settle_message, outcome=Outcome.COMPLETE),
    "Settle, release": partial(settle_message, outcome=Outcome.RELEASE),
}

CLAIM: Final = Subject(
    specs=(FragmentSpec(lock_duration_ms=message.TTL_MS, max_delivery_count=9),),
    commands=COMMANDS,
    moments=(message.claim_ends_ms,),
    place=place,
    facts=(
        (
            "its time is over",
            "its time is not over",
            partial(message.is_past, message.claim_ends_ms),
        ),
        ("messages wait", "no message waits", lambda world: len(world.state.main.ready) > 0),
        ("its messages still wait", "others have taken its messages", still_waits),
    ),
    more=lambda world: (
        epoch(world),
        start(world),
        tuple([each for each, _ in message.places(world)]),
    ),
)
