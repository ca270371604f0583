"""What the machine lets out about claims.

Owns the answers to commands about claims, each a call of the port that the command named. Made by
`claiming`, carried out by the broker when what they tell is durable.
"""

from dataclasses import dataclass

from partibus.fragment.claims.commands import ClaimPort, ClaimsPort, ClaimSummary
from partibus.fragment.effects import Effect


@dataclass(eq=False)
class Claimed(Effect):
    """A claim stands."""

    port: ClaimPort
    summary: ClaimSummary

    def carry_out(self) -> None:
        self.port.claimed(self.summary)


@dataclass(eq=False)
class ClaimsListed(Effect):
    """Every owner with what it holds."""

    port: ClaimsPort
    summaries: list[ClaimSummary]

    def carry_out(self) -> None:
        self.port.claims_listed(self.summaries)
