"""The search for what may happen to one session: its states, and the commands that are tried.

Called by `machine_page`. One session with at most one message. That a change becomes durable is an
event of its own here: a session whose holder has left is free only when nothing is in flight.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

import machine_message as message
from machine_message import NOBODY
from machine_search import NOTHING, Subject, World

from partibus.fragment.commands import (
    Command,
    Demand,
    Detach,
    DropLocks,
    Enqueue,
    Outcome,
    Purge,
    Resume,
    Settle,
    Suspend,
    Tick,
)
from partibus.fragment.message import NewMessage
from partibus.fragment.sessions.commands import (
    AcceptSession,
    FindOldestSession,
    GetSessionState,
    ListSessions,
    RenewSession,
    SessionConsumer,
    SetSessionState,
)
from partibus.fragment.sessions.state import NO_STATE, Session, SessionLock
from partibus.fragment.spec import FragmentSpec


def session_of(world: World) -> Session | None:
    """The session, when it exists."""
    sessions = world.state.sessions
    return None if sessions is None else sessions.by_id.get("s")


def lock_of(world: World) -> SessionLock | None:
    """Its lock."""
    session = session_of(world)
    return None if session is None else session.lock


def place(world: World) -> str:
    """The state of the session."""
    lock = lock_of(world)
    if lock is not None:
        return "closing" if lock.is_closing else "held"
    return NOTHING if session_of(world) is None else "free"


def lock_ends_ms(world: World) -> int:
    """When the lock of the session lapses."""
    lock = lock_of(world)
    return 0 if lock is None or lock.is_closing else lock.until_ms


def in_flight(world: World) -> bool:
    """Whether its message was delivered and is not settled."""
    lock = lock_of(world)
    return lock is not None and bool(lock.in_flight)


def is_settling(world: World) -> bool:
    """Whether the end of the delivery is not durable yet."""
    lock = lock_of(world)
    return lock is not None and any(held.busy for held in lock.in_flight.values())


def is_wanted(world: World) -> bool:
    """Whether another receiver asked for it while it was closing."""
    lock = lock_of(world)
    return lock is not None and bool(lock.successors)


def is_shared(world: World) -> bool:
    """Whether its holder lets another receiver take it over."""
    lock = lock_of(world)
    return lock is not None and not lock.consumer.is_exclusive


def is_ready(world: World) -> bool:
    """Whether its message waits to be delivered."""
    session = session_of(world)
    return session is not None and session.first() > 0


def has_state(world: World) -> bool:
    """Whether state is stored for it."""
    session = session_of(world)
    return session is not None and session.state_length != NO_STATE


def is_kept(world: World) -> bool:
    """Whether it exists without a holder."""
    return has_messages(world) or has_state(world)


def has_messages(world: World) -> bool:
    """Whether it has messages, whatever their state."""
    session = session_of(world)
    return session is not None and session.message_count > 0


# --- commands -----------------------------------------------------------------------------------


def enqueue(world: World) -> Command | None:
    """A message of the session is sent, if there is none."""
    if has_messages(world) or world.pending:
        return None
    return Enqueue(NOBODY, [NewMessage(b"m", -1, session_id="s")], [1], 1)


def accept(world: World, session_id: str | None, is_exclusive: bool = True) -> Command | None:
    """A receiver asks for the session, or for any, and does not wait."""
    if is_wanted(world):
        return None
    return AcceptSession(SessionConsumer(1, NOBODY, False), session_id, False, is_exclusive)


def take_over(world: World) -> Command | None:
    """A receiver presents the lock of the holder."""
    lock = lock_of(world)
    if lock is None:
        return None
    consumer = SessionConsumer(1, NOBODY, False)
    return AcceptSession(consumer, "s", False, is_exclusive=False, takes_over=lock.number)


def of_holder(make: Callable[[SessionLock], Command], world: World) -> Command | None:
    """A command of the receiver that holds the session, or held it until it began to close."""
    lock = lock_of(world)
    return None if lock is None else make(lock)


def settle(world: World, outcome: Outcome) -> Command | None:
    """The holder settles the message that it has."""
    lock = lock_of(world)
    for token in lock.in_flight if lock is not None else ():
        return Settle(None, None, message.subqueue_of(world), [token], outcome)
    return None


def state_change(state: bytes | None, lock: SessionLock) -> Command:
    """The holder sets the session's state."""
    return SetSessionState(NOBODY, "s", lock.number, state)


COMMANDS: Final[dict[str, Callable[[World], Command | None]]] = {
    "Enqueue": enqueue,
    "AcceptSession, by name": partial(accept, session_id="s"),
    "AcceptSession, not exclusive": partial(accept, session_id="s", is_exclusive=False),
    "AcceptSession, any": partial(accept, session_id=None),
    "AcceptSession, with the holder's lock": take_over,
    "FindOldestSession": lambda world: FindOldestSession(NOBODY),
    "RenewSession": partial(of_holder, lambda lock: RenewSession(NOBODY, "s", lock.number)),
    "DropLocks": lambda world: DropLocks(),
    "GetSessionState": partial(of_holder, lambda lock: GetSessionState(NOBODY, "s", lock.number)),
    "SetSessionState": partial(of_holder, partial(state_change, b"x")),
    "SetSessionState, none": partial(of_holder, partial(state_change, None)),
    "ListSessions": lambda world: ListSessions(NOBODY, None, 0, 9),
    "Demand": partial(
        of_holder, lambda lock: Demand(lock.consumer, lock.consumer.sent + 1, drain=True)
    ),
    "Detach": partial(of_holder, lambda lock: Detach(lock.consumer)),
    "Settle, complete": partial(settle, outcome=Outcome.COMPLETE),
    "Settle, abandon": partial(settle, outcome=Outcome.ABANDON),
    "Purge": lambda world: Purge(NOBODY, message.subqueue_of(world), 9, world.now_ms + 1),
    "Tick": lambda world: Tick(),
    "Suspend": lambda world: Suspend(),
    "Resume": lambda world: Resume(),
}

SESSION: Final = Subject(
    specs=(
        FragmentSpec(lock_duration_ms=message.LOCK_MS, max_delivery_count=9, requires_session=True),
    ),
    commands=COMMANDS,
    moments=(lock_ends_ms,),
    place=place,
    facts=(
        ("its lock has lapsed", "its lock holds", partial(message.is_past, lock_ends_ms)),
        (
            "the end of a delivery is not durable yet",
            "no end of a delivery waits to be durable",
            is_settling,
        ),
        ("a message is in flight", "nothing is in flight", in_flight),
        ("another receiver has asked for it", "no other receiver has asked for it", is_wanted),
        ("its holder is not exclusive", "its holder is exclusive", is_shared),
        ("it has messages or a state", "it has neither messages nor a state", is_kept),
        ("it has a state", "it has no state", has_state),
        ("a message waits", "no message waits", is_ready),
    ),
    more=lambda world: (message.place(world), message.deliveries(world)),
    waits_for_store=True,
)
