"""Where the answers to commands go.

Owns the shapes of answers, one protocol for each kind. A command carries the port that its answer
is for, implemented by a link of this process or by the end of a socket. Called at most once per
command, and never inside the call that submitted it.
"""

from collections.abc import Sequence
from typing import Protocol

from partibus.domain.errors import BusError
from partibus.fragment.message import Held


class FailurePort(Protocol):
    """Where the failure of an operation goes, whatever its kind."""

    def failed(self, error: BusError) -> None:
        """Nothing was changed, or nothing can be read."""
        ...


class SendPort(Protocol):
    """Where the answers to sends go."""

    def confirmed(
        self, requests: Sequence[int], first_sequence: int, dropped: Sequence[int] = ()
    ) -> None:
        """The sends with these numbers are durable; their messages are numbered on from here.

        `dropped` are the indexes of the command's messages that were duplicates: they are not
        stored and have no number (DUP-1).
        """
        ...

    def refused(self, requests: Sequence[int], error: BusError) -> None:
        """The sends with these numbers were not stored."""
        ...


class SettlePort(Protocol):
    """Where the answers to settlements go."""

    def settled(self, request: object, lost: Sequence[int], error: BusError | None) -> None:
        """A settlement ended: `lost` are the tokens without a lock; an `error` failed all of it."""
        ...


class RenewPort(FailurePort, Protocol):
    """Where the answers to renewals go; after a failure the outcome is unknown."""

    def renewed(self, until_ms: Sequence[int]) -> None:
        """Locks were renewed until these times, in the order asked; 0 for a lost lock."""
        ...


class AnswerPort(FailurePort, Protocol):
    """Where the end of an operation without a result is reported."""

    def done(self, count: int) -> None:
        """It is durable; `count` messages were affected."""
        ...


class MessagesPort(FailurePort, Protocol):
    """Where messages go that were requested outside of a receiving link."""

    def found(self, messages: Sequence[Held], bodies: Sequence[bytes]) -> None:
        """The messages, in order, with their bodies."""
        ...


class QuestionPort(FailurePort, Protocol):
    """Where the answer to a question goes."""

    def answered(self, payload: bytes) -> None:
        """The answer of the process, in JSON."""
        ...
