"""What is prepared about claims, until it is durable.

Owns the changes that the commands about claims make: each has its records and what is needed to
carry it out or to undo it. Made and finished by `behaviour`, kept by the broker until then.
"""

from dataclasses import dataclass

from partibus.fragment.changes import Change
from partibus.fragment.claims.commands import ClaimMessages, ReleaseClaim, RenewClaim, SettleClaim
from partibus.fragment.claims.state import Claim
from partibus.fragment.message import Held


@dataclass(eq=False)
class Claiming(Change):
    """Messages pass from the queue into a claim."""

    claim: Claim
    command: ClaimMessages
    messages: list[Held]
    expires_ms: int


@dataclass(eq=False)
class ClaimRenewal(Change):
    """A claim ends later, or belongs to a newer run of its owner."""

    claim: Claim
    command: ClaimMessages | RenewClaim
    expires_ms: int


@dataclass(eq=False)
class ClaimSettlement(Change):
    """The messages of a claim leave for good."""

    claim: Claim
    command: SettleClaim
    messages: list[Held]
    """Messages that a lapsed claim had given back, taken from the queue again."""


@dataclass(eq=False)
class ClaimRelease(Change):
    """The messages of a claim go back as they were."""

    claim: Claim
    command: ReleaseClaim
    epoch: int


@dataclass(eq=False)
class ClaimLapse(Change):
    """The time of a claim is up."""

    claim: Claim
