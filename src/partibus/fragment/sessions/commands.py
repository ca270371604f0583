"""What a fragment can be asked to do with sessions, as data.

A receiver holds one session at a time: only it receives the session's messages, and only its lock
reads and sets the session's state (SES-1, SES-16).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from partibus.domain.errors import BusError
from partibus.fragment.commands import AnsweredCommand, Command, Consumer, Receiver, SubQueueType
from partibus.fragment.ports import AnswerPort, FailurePort, RenewPort


class StatePort(FailurePort, Protocol):
    """Where the state of a session goes."""

    def state_found(self, state: bytes | None) -> None:
        """The state; None when there is none (SES-16)."""
        ...


class SessionsPort(FailurePort, Protocol):
    """Where the ids of sessions go."""

    def listed(self, session_ids: Sequence[str], passed_over: int) -> None:
        """The ids, and how many before them were skipped."""
        ...


class SessionReceiver(Receiver, Protocol):
    """A receiver that takes a session and draws its messages (SES-1)."""

    def accepted(self, session_id: str, locked_until_ms: int, lock: int) -> None:
        """The session is held until this time; the number `lock` proves it to the fragment."""
        ...

    def not_accepted(self, error: BusError) -> None:
        """No session is held."""
        ...

    def session_lost(self, error: BusError) -> None:
        """The session is no longer held (SES-7)."""
        ...


class SessionConsumer(Consumer):
    """A receiver of one session."""

    __slots__ = ("is_exclusive", "session_receiver")

    def __init__(self, fragment_id: int, receiver: SessionReceiver, deletes: bool) -> None:
        super().__init__(fragment_id, receiver, SubQueueType.MAIN, deletes)
        self.session_receiver = receiver
        self.is_exclusive = True
        """False when another receiver may take its session over (SES-26)."""


@dataclass(eq=False)
class AcceptSession(Command):
    """Lock a session for a receiver: a named one, or the free one whose head waits longest.

    A named session that is held is refused at once (SES-3). When any session will do and none is
    free, `waits` says whether the receiver waits in line until it detaches (SES-4). A receiver that
    is not exclusive may present the lock of another one, and takes its place (SES-27).
    """

    consumer: SessionConsumer
    session_id: str | None
    waits: bool
    is_exclusive: bool = True
    takes_over: int = 0
    """The number of the lock to take over; 0 for none."""

    def refuse(self, error: BusError) -> None:
        self.consumer.session_receiver.not_accepted(error)


@dataclass(eq=False)
class FindOldestSession(AnsweredCommand):
    """Find since when the head of the session that is given next has waited; 0 without one."""

    port: AnswerPort


@dataclass(eq=False)
class RenewSession(AnsweredCommand):
    """Extend a session's lock by the entity's lock duration from now (SES-7)."""

    port: RenewPort
    session_id: str
    lock: int


@dataclass(eq=False)
class GetSessionState(AnsweredCommand):
    """Read the state of a session; needs its lock (SES-16)."""

    port: StatePort
    session_id: str
    lock: int


@dataclass(eq=False)
class SetSessionState(AnsweredCommand):
    """Store the state of a session, None to clear it; needs its lock (SES-16)."""

    port: AnswerPort
    session_id: str
    lock: int
    state: bytes | None


@dataclass(eq=False)
class ListSessions(AnsweredCommand):
    """List the sessions (SES-18)."""

    port: SessionsPort
    updated_after_ms: int | None
    """Only those whose state was set after this; None for all that have active messages
    or state."""
    skip: int
    count_max: int
