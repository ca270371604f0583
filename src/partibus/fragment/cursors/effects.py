"""What the machine lets out about cursors and ranges.

Owns the answers to commands about cursors, each a call of the port that the command named. Made by
`cursors`, carried out by the broker when what they tell is durable.
"""

from partibus.domain.errors import BusError
from partibus.fragment.cursors.commands import (
    CursorPort,
    CursorsPort,
    CursorSummary,
    NumberPort,
    PlanPort,
    RangePlan,
)
from partibus.fragment.effects import Effect


class Placed(Effect):
    """A cursor stands."""

    __slots__ = ("cursor", "port")

    def __init__(self, port: CursorPort, cursor: CursorSummary) -> None:
        self.port = port
        self.cursor = cursor

    def carry_out(self) -> None:
        self.port.placed(self.cursor)


class CursorFailed(Effect):
    """A cursor was not placed, or nothing planned."""

    __slots__ = ("error", "port")

    def __init__(self, port: CursorPort | PlanPort, error: BusError) -> None:
        self.port = port
        self.error = error

    def carry_out(self) -> None:
        self.port.failed(self.error)


class CursorsListed(Effect):
    """Every cursor."""

    __slots__ = ("cursors", "port")

    def __init__(self, port: CursorsPort, cursors: list[CursorSummary]) -> None:
        self.port = port
        self.cursors = cursors

    def carry_out(self) -> None:
        self.port.cursors_listed(self.cursors)


class Located(Effect):
    """The number of a message."""

    __slots__ = ("port", "sequence")

    def __init__(self, port: NumberPort, sequence: int) -> None:
        self.port = port
        self.sequence = sequence

    def carry_out(self) -> None:
        self.port.located(self.sequence)


class Planned(Effect):
    """How far a read would come."""

    __slots__ = ("plan", "port")

    def __init__(self, port: PlanPort, plan: RangePlan) -> None:
        self.port = port
        self.plan = plan

    def carry_out(self) -> None:
        self.port.planned(self.plan)
