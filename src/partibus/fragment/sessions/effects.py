"""What the receivers and owners of sessions are told.

Owns the answers that only sessions have; carried out by the broker like any effect.
"""

from dataclasses import dataclass

from partibus.domain.errors import BusError
from partibus.fragment.effects import BodyEffect, Effect
from partibus.fragment.message import Held
from partibus.fragment.sessions.commands import SessionConsumer, SessionsPort, StatePort


@dataclass(eq=False)
class Accepted(Effect):
    """A receiver holds a session."""

    consumer: SessionConsumer
    session_id: str
    until_ms: int
    lock: int

    def carry_out(self) -> None:
        self.consumer.session_receiver.accepted(self.session_id, self.until_ms, self.lock)


@dataclass(eq=False)
class NotAccepted(Effect):
    """A receiver got no session."""

    consumer: SessionConsumer
    error: BusError

    def carry_out(self) -> None:
        self.consumer.session_receiver.not_accepted(self.error)


@dataclass(eq=False)
class SessionLost(Effect):
    """A receiver no longer holds its session."""

    consumer: SessionConsumer
    error: BusError

    def carry_out(self) -> None:
        self.consumer.session_receiver.session_lost(self.error)


@dataclass(eq=False)
class SessionsListed(Effect):
    """The ids of sessions."""

    port: SessionsPort
    session_ids: list[str]
    passed_over: int

    def carry_out(self) -> None:
        self.port.listed(self.session_ids, self.passed_over)


class StateFound(BodyEffect):
    """The state of a session."""

    __slots__ = ("port",)

    def __init__(self, port: StatePort, stored: Held) -> None:
        super().__init__([stored], False)
        self.port = port

    def hand_over(self, bodies: list[bytes]) -> None:
        self.port.state_found(bodies[0])

    def unreadable(self, error: BusError) -> None:
        self.port.failed(error)
