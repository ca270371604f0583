"""The search for what may happen to one message: its states, and the commands that are tried.

Called by `machine_page`. One message at a time is in the fragment, so "the message" is whatever is
there; the entity has no sessions, and nothing is forwarded.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from machine_search import NOTHING, Subject, World

from partibus.fragment.claims.commands import (
    ClaimMessages,
    ListClaims,
    ReadClaim,
    ReleaseClaim,
    RenewClaim,
    SettleClaim,
)
from partibus.fragment.commands import (
    CancelScheduled,
    Command,
    Consumer,
    Demand,
    Detach,
    DropLocks,
    Enqueue,
    Interest,
    Outcome,
    Peek,
    Pick,
    Purge,
    ReceiveDeferred,
    Renew,
    Resume,
    Settle,
    SubQueueType,
    Suspend,
    Tick,
    Undelivered,
)
from partibus.fragment.message import Held, NewMessage
from partibus.fragment.spec import FragmentSpec

SECOND_MS: Final = 1000
LOCK_MS: Final = 60 * SECOND_MS
CLAIM_MS: Final = 5 * LOCK_MS
DUE_MS: Final = 10 * LOCK_MS
TTL_MS: Final = 60 * LOCK_MS
DELIVERIES_MAX: Final = 3


class Nobody:
    """In place of a port or a receiver: ignores whatever it is told."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: None


NOBODY: Final[Any] = Nobody()


def places(world: World) -> Iterator[tuple[str, Held]]:
    """Every message of the fragment, and where it is."""
    state = world.state
    for held in state.scheduled.copies(0):
        yield "scheduled", held
    if state.claims is not None:
        for claim in state.claims.by_owner.values():
            yield from [("claimed", held) for held in claim.table.copies(0)]
    for subqueue, before in ((state.main, ""), (state.dead, "dead-lettered, ")):
        waiting = before.removesuffix(", ") or "waiting"
        yield from [(waiting, held) for held in subqueue.ready.copies(0)]
        yield from [(f"{before}deferred", held) for held in subqueue.deferred.copies(0)]
        yield from [(f"{before}damaged", held) for held in subqueue.leaving.values()]
        for held in subqueue.locks.values():
            yield f"{before}deferred, locked" if held.deferred else f"{before}locked", held


def found(world: World) -> tuple[str, Held | None]:
    """The message and its place."""
    return next(iter(places(world)), (NOTHING, None))


def place(world: World) -> str:
    """The state of the message."""
    return found(world)[0]


def subqueue_of(world: World) -> SubQueueType:
    """Where receivers must look for it."""
    is_dead = place(world).startswith("dead-lettered")
    return SubQueueType.DEAD_LETTER if is_dead else SubQueueType.MAIN


def receiver(world: World, deletes: bool = False) -> Consumer:
    """A receiver that comes for one command."""
    return Consumer(1, NOBODY, subqueue_of(world), deletes)


# --- commands -----------------------------------------------------------------------------------


def enqueue(world: World, due_ms: int = 0) -> Command | None:
    """A message is sent, if there is none, and no claim that remembers an earlier one."""
    if place(world) != NOTHING or is_claim_lapsed(world):
        return None
    message = NewMessage(b"m", TTL_MS, world.now_ms + due_ms if due_ms else 0)
    return Enqueue(NOBODY, [message], [1], 1)


def demand(world: World, deletes: bool) -> Command:
    """A receiver wants one message, if one is there now."""
    return Demand(receiver(world, deletes), 1, drain=True)


def with_token(make: Callable[[SubQueueType, int], Command], world: World) -> Command | None:
    """A command of the holder of the lock."""
    held = found(world)[1]
    return make(subqueue_of(world), held.token) if held is not None and held.token else None


def settle(outcome: Outcome, world: World) -> Command | None:
    """The holder of the lock settles."""
    return with_token(lambda subqueue, token: Settle(None, None, subqueue, [token], outcome), world)


def with_number(make: Callable[[SubQueueType, int], Command], world: World) -> Command | None:
    """A command about the message by its sequence number."""
    held = found(world)[1]
    return None if held is None else make(subqueue_of(world), held.sequence)


def undelivered(world: World, damaged: bool) -> Command | None:
    """A message that was locked for a receiver could not be read."""
    held = found(world)[1]
    if held is None or not held.token:
        return None
    consumer = receiver(world)
    consumer.gone = True
    return Undelivered(consumer, [held], damaged)


COMMANDS: Final[dict[str, Callable[[World], Command | None]]] = {
    "Enqueue": enqueue,
    "Enqueue, scheduled": partial(enqueue, due_ms=DUE_MS),
    "Demand": partial(demand, deletes=False),
    "Demand, receive-and-delete": partial(demand, deletes=True),
    "Interest": lambda world: Interest(receiver(world)),
    "Detach": lambda world: Detach(receiver(world)),
    **{
        f"Settle, {outcome.name.lower().replace('_', '-')}": partial(settle, outcome)
        for outcome in Outcome
    },
    "Renew": partial(with_token, lambda subqueue, token: Renew(NOBODY, subqueue, [token])),
    "DropLocks": lambda world: DropLocks(),
    "CancelScheduled": partial(with_number, lambda _, number: CancelScheduled(NOBODY, [number])),
    "ReceiveDeferred": partial(
        with_number,
        lambda subqueue, number: ReceiveDeferred(NOBODY, subqueue, [number], deletes=False),
    ),
    "ReceiveDeferred, receive-and-delete": partial(
        with_number,
        lambda subqueue, number: ReceiveDeferred(NOBODY, subqueue, [number], deletes=True),
    ),
    "Peek": lambda world: Peek(NOBODY, subqueue_of(world), 0, 9, 999),
    "Pick": partial(with_number, lambda subqueue, number: Pick(NOBODY, subqueue, [number])),
    "Purge": lambda world: Purge(NOBODY, subqueue_of(world), 9, world.now_ms + 1),
    "Undelivered, damaged": partial(undelivered, damaged=True),
    "Undelivered, the store is down": partial(undelivered, damaged=False),
    "Tick": lambda world: Tick(),
    "Suspend": lambda world: Suspend(),
    "Resume": lambda world: Resume(),
    "ClaimMessages": lambda world: ClaimMessages(NOBODY, "o", 1, "s", 9, 999, CLAIM_MS),
    "RenewClaim": lambda world: RenewClaim(NOBODY, "o", 1, "s", CLAIM_MS),
    "SettleClaim": lambda world: SettleClaim(NOBODY, "o", 1, "s"),
    "ReleaseClaim": lambda world: ReleaseClaim(NOBODY, "o", 1, forget=False),
    "ReadClaim": lambda world: ReadClaim(NOBODY, "o", "s", 0, 9, 999),
    "ListClaims": lambda world: ListClaims(NOBODY),
}


# --- what it depends on ---------------------------------------------------------------------------


def lock_ends_ms(world: World) -> int:
    """When the lock of the message lapses; 0 when it has none."""
    held = found(world)[1]
    return held.locked_until_ms if held is not None and held.token else 0


def expires_ms(world: World) -> int:
    """When its time to live is over; 0 when that does not run."""
    name, held = found(world)
    return held.expires_ms if held is not None and name != "scheduled" else 0


def due_ms(world: World) -> int:
    """When it is due; 0 when it is not scheduled."""
    name, held = found(world)
    return held.expires_ms if held is not None and name == "scheduled" else 0


def claim_ends_ms(world: World) -> int:
    """When the claim lapses; 0 when there is none."""
    return (world.state.claims and world.state.claims.next_lapse_ms()) or 0


def is_claim_lapsed(world: World) -> bool:
    """Whether the claim lapsed, and its owner may still take it back."""
    claims = world.state.claims
    claim = None if claims is None else claims.by_owner.get("o")
    return claim is not None and claim.is_lapsed


def deliveries(world: World) -> int:
    """The deliveries that ended; beyond the maximum they do not matter."""
    held = found(world)[1]
    return min(held.delivery_count, DELIVERIES_MAX) if held is not None else 0


def is_past(moment_ms: Callable[[World], int], world: World) -> bool:
    """Whether one of these times has come."""
    return 0 < moment_ms(world) <= world.now_ms + 1


_PLAIN: Final = FragmentSpec(lock_duration_ms=LOCK_MS, max_delivery_count=DELIVERIES_MAX)
_KEEPING: Final = FragmentSpec(
    lock_duration_ms=LOCK_MS, max_delivery_count=DELIVERIES_MAX, dead_letter_on_expiry=True
)

MESSAGE: Final = Subject(
    specs=(_PLAIN, _KEEPING),
    commands=COMMANDS,
    moments=(lock_ends_ms, expires_ms, due_ms, claim_ends_ms),
    place=place,
    facts=(
        ("its lock has lapsed", "its lock holds", partial(is_past, lock_ends_ms)),
        ("it is due", "it is not due", partial(is_past, due_ms)),
        ("the claim's time is over", "the claim holds", partial(is_past, claim_ends_ms)),
        (
            "this was the last delivery allowed",
            "more deliveries are allowed",
            lambda world: deliveries(world) + 1 >= DELIVERIES_MAX,
        ),
        ("it has expired", "it has not expired", partial(is_past, expires_ms)),
        (
            "expired messages are dead-lettered",
            "expired messages are dropped",
            lambda world: world.state.spec.dead_letter_on_expiry,
        ),
        ("a claim that held it has lapsed", "no claim that held it has lapsed", is_claim_lapsed),
    ),
    more=lambda world: (deliveries(world),),
)
