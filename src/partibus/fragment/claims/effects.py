"""What the machine lets out about claims.

Owns the answers to commands about claims, each a call of the port that the command named. Made by
`claiming`, carried out by the broker when what they tell is durable.
"""

from partibus.domain.errors import BusError
from partibus.fragment.claims.commands import ClaimPort, ClaimsPort, ClaimSummary
from partibus.fragment.effects import Effect


class Claimed(Effect):
    """A claim stands."""

    __slots__ = ("port", "summary")

    def __init__(self, port: ClaimPort, summary: ClaimSummary) -> None:
        self.port = port
        self.summary = summary

    def carry_out(self) -> None:
        self.port.claimed(self.summary)


class ClaimFailed(Effect):
    """A claim was refused, or is lost."""

    __slots__ = ("error", "port")

    def __init__(self, port: ClaimPort, error: BusError) -> None:
        self.port = port
        self.error = error

    def carry_out(self) -> None:
        self.port.failed(self.error)


class ClaimsListed(Effect):
    """Every owner with what it holds."""

    __slots__ = ("port", "summaries")

    def __init__(self, port: ClaimsPort, summaries: list[ClaimSummary]) -> None:
        self.port = port
        self.summaries = summaries

    def carry_out(self) -> None:
        self.port.claims_listed(self.summaries)
