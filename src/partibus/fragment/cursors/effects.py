"""What the machine lets out about cursors and ranges.

Owns the answers to commands about cursors, each a call of the port that the command named. Made by
`cursors`, carried out by the broker when what they tell is durable.
"""

from dataclasses import dataclass

from partibus.fragment.cursors.commands import (
    CursorPort,
    CursorsPort,
    CursorSummary,
    NumberPort,
    PlanPort,
    RangePlan,
)
from partibus.fragment.effects import Effect


@dataclass(eq=False)
class Placed(Effect):
    """A cursor stands."""

    port: CursorPort
    cursor: CursorSummary

    def carry_out(self) -> None:
        self.port.placed(self.cursor)


@dataclass(eq=False)
class CursorsListed(Effect):
    """Every cursor."""

    port: CursorsPort
    cursors: list[CursorSummary]

    def carry_out(self) -> None:
        self.port.cursors_listed(self.cursors)


@dataclass(eq=False)
class Located(Effect):
    """The number of a message."""

    port: NumberPort
    sequence: int

    def carry_out(self) -> None:
        self.port.located(self.sequence)


@dataclass(eq=False)
class Planned(Effect):
    """How far a read would come."""

    port: PlanPort
    plan: RangePlan

    def carry_out(self) -> None:
        self.port.planned(self.plan)
