"""What a fragment can be asked to do with claims, as data.

A claim is a durable hold of one owner on messages of the main queue: the lock of a pipeline,
which reads what it has claimed as often as it likes and settles all of it at once. An owner
has at most one claim in a fragment, named by where it starts. `epoch` numbers the runs of an
owner; a run that a later one has followed is refused.
"""

from typing import Protocol

from partibus.domain.errors import BusError
from partibus.fragment.commands import Command
from partibus.fragment.ports import AnswerPort, MessagesPort


class ClaimSummary:
    """What an owner holds."""

    __slots__ = (
        "byte_count",
        "count",
        "epoch",
        "expires_ms",
        "first",
        "is_lapsed",
        "last",
        "owner",
        "start",
    )

    def __init__(
        self,
        owner: str,
        epoch: int,
        start: str,
        count: int,
        byte_count: int,
        first: int,
        last: int,
        expires_ms: int,
        is_lapsed: bool,
    ) -> None:
        self.owner = owner
        self.epoch = epoch
        self.start = start
        self.count = count
        self.byte_count = byte_count
        self.first = first
        """The lowest sequence number in it; 0 when it is empty."""
        self.last = last
        self.expires_ms = expires_ms
        self.is_lapsed = is_lapsed


class ClaimPort(Protocol):
    """Where the answers about a claim go."""

    def claimed(self, summary: ClaimSummary) -> None:
        """The claim stands, durably."""
        ...

    def failed(self, error: BusError) -> None:
        """Nothing was changed."""
        ...


class ClaimsPort(Protocol):
    """Where the list of claims goes."""

    def claims_listed(self, summaries: list[ClaimSummary]) -> None:
        """Every owner with what it holds."""
        ...


class ClaimMessages(Command):
    """Hold waiting messages, oldest first, up to both limits.

    Asked again with the same start it answers with the claim that stands, taken back first if
    it has lapsed. What the owner held with another start goes back to the queue."""

    __slots__ = ("byte_count_max", "count_max", "duration_ms", "epoch", "owner", "port", "start")

    def __init__(
        self,
        port: ClaimPort,
        owner: str,
        epoch: int,
        start: str,
        count_max: int,
        byte_count_max: int,
        duration_ms: int,
    ) -> None:
        self.port = port
        self.owner = owner
        self.epoch = epoch
        self.start = start
        self.count_max = count_max
        self.byte_count_max = byte_count_max
        self.duration_ms = duration_ms


class RenewClaim(Command):
    """Extend a claim by this duration from now."""

    __slots__ = ("duration_ms", "epoch", "owner", "port", "start")

    def __init__(
        self, port: ClaimPort, owner: str, epoch: int, start: str, duration_ms: int
    ) -> None:
        self.port = port
        self.owner = owner
        self.epoch = epoch
        self.start = start
        self.duration_ms = duration_ms


class SettleClaim(Command):
    """Complete every message of a claim; one that is settled already answers 0."""

    __slots__ = ("epoch", "owner", "port", "start")

    def __init__(self, port: AnswerPort, owner: str, epoch: int, start: str) -> None:
        self.port = port
        self.owner = owner
        self.epoch = epoch
        self.start = start


class ReleaseClaim(Command):
    """Give the messages of an owner's claim back, without counting a delivery."""

    __slots__ = ("epoch", "forget", "owner", "port")

    def __init__(self, port: AnswerPort, owner: str, epoch: int, forget: bool) -> None:
        self.port = port
        self.owner = owner
        self.epoch = epoch
        self.forget = forget
        """Forget the owner too: its epochs begin again at 1."""


class ReadClaim(Command):
    """Copies of claimed messages from a number on, as often as asked."""

    __slots__ = ("byte_count_max", "count_max", "from_sequence", "owner", "port", "start")

    def __init__(
        self,
        port: MessagesPort,
        owner: str,
        start: str,
        from_sequence: int,
        count_max: int,
        byte_count_max: int,
    ) -> None:
        self.port = port
        self.owner = owner
        self.start = start
        self.from_sequence = from_sequence
        self.count_max = count_max
        self.byte_count_max = byte_count_max


class ListClaims(Command):
    """Tell which owners hold what."""

    __slots__ = ("port",)

    def __init__(self, port: ClaimsPort) -> None:
        self.port = port
