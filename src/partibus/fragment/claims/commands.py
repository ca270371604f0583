"""What a fragment can be asked to do with claims, as data.

A claim is a durable hold of one owner on messages of the main queue: the lock of a pipeline, which
reads what it has claimed as often as it likes and settles all of it at once. An owner has at most
one claim in a fragment, named by where it starts. `epoch` numbers the runs of an owner; a run is
refused once a later one has begun.
"""

from dataclasses import dataclass
from typing import Protocol

from partibus.fragment.commands import AnsweredCommand
from partibus.fragment.ports import AnswerPort, FailurePort, MessagesPort


@dataclass(eq=False)
class ClaimSummary:
    """What an owner holds."""

    owner: str
    epoch: int
    start: str
    count: int
    byte_count: int
    first: int
    """The lowest sequence number in it; 0 when it is empty."""
    last: int
    expires_ms: int
    is_lapsed: bool


class ClaimPort(FailurePort, Protocol):
    """Where the answers about a claim go."""

    def claimed(self, summary: ClaimSummary) -> None:
        """The claim is durable."""
        ...


class ClaimsPort(FailurePort, Protocol):
    """Where the list of claims goes."""

    def claims_listed(self, summaries: list[ClaimSummary]) -> None:
        """Every owner with what it holds."""
        ...


@dataclass(eq=False)
class ClaimMessages(AnsweredCommand):
    """Hold waiting messages, oldest first, up to both limits.

    A repeated request with the same start returns the existing claim, which is first taken back if
    it has lapsed. What the owner held with another start goes back to the queue.
    """

    port: ClaimPort
    owner: str
    epoch: int
    start: str
    count_max: int
    byte_count_max: int
    duration_ms: int


@dataclass(eq=False)
class RenewClaim(AnsweredCommand):
    """Extend a claim by this duration from now."""

    port: ClaimPort
    owner: str
    epoch: int
    start: str
    duration_ms: int


@dataclass(eq=False)
class SettleClaim(AnsweredCommand):
    """Complete every message of a claim; one that is already settled answers 0."""

    port: AnswerPort
    owner: str
    epoch: int
    start: str


@dataclass(eq=False)
class ReleaseClaim(AnsweredCommand):
    """Give the messages of an owner's claim back, without counting a delivery.

    Without an epoch, for operators: whatever run the owner is in ends. An owner that does not exist
    is an error then.
    """

    port: AnswerPort
    owner: str
    epoch: int | None
    forget: bool
    """Forget the owner too: its epochs start at 1 again."""


@dataclass(eq=False)
class ReadClaim(AnsweredCommand):
    """Copies of claimed messages from a number on, as often as asked."""

    port: MessagesPort
    owner: str
    start: str
    from_sequence: int
    count_max: int
    byte_count_max: int


@dataclass(eq=False)
class ListClaims(AnsweredCommand):
    """List the owners and what they hold."""

    port: ClaimsPort
