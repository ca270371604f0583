"""What is prepared about claims, until it is durable.

Owns the changes that the commands about claims make: each has its records and what is needed to
carry it out or to take it back. Made and finished by `claiming`, carried by the broker.
"""

from partibus.fragment.changes import Change
from partibus.fragment.claims.commands import ClaimMessages, ClaimPort, ReleaseClaim, SettleClaim
from partibus.fragment.claims.state import Claim
from partibus.fragment.message import Held
from partibus.store.record import Record


class Claiming(Change):
    """Messages pass from the queue into a claim."""

    __slots__ = ("claim", "command", "expires_ms", "messages")

    def __init__(
        self,
        records: list[Record],
        claim: Claim,
        command: ClaimMessages,
        messages: list[Held],
        expires_ms: int,
    ) -> None:
        self.records = records
        self.claim = claim
        self.command = command
        self.messages = messages
        self.expires_ms = expires_ms


class ClaimRenewal(Change):
    """A claim ends later, or belongs to a newer run of its owner."""

    __slots__ = ("claim", "epoch", "expires_ms", "port")

    def __init__(
        self, records: list[Record], claim: Claim, epoch: int, expires_ms: int, port: ClaimPort
    ) -> None:
        self.records = records
        self.claim = claim
        self.epoch = epoch
        self.expires_ms = expires_ms
        self.port = port


class ClaimSettlement(Change):
    """The messages of a claim leave for good."""

    __slots__ = ("claim", "command", "messages")

    def __init__(
        self, records: list[Record], claim: Claim, command: SettleClaim, messages: list[Held]
    ) -> None:
        self.records = records
        self.claim = claim
        self.command = command
        self.messages = messages
        """Those that a lapsed claim had given back, taken from the queue once more."""


class ClaimRelease(Change):
    """The messages of a claim go back as they were."""

    __slots__ = ("claim", "command")

    def __init__(self, records: list[Record], claim: Claim, command: ReleaseClaim) -> None:
        self.records = records
        self.claim = claim
        self.command = command


class ClaimLapse(Change):
    """The time of a claim is up."""

    __slots__ = ("claim",)

    def __init__(self, records: list[Record], claim: Claim) -> None:
        self.records = records
        self.claim = claim
