"""What a fragment can be asked to do with cursors, and reads of ranges, as data.

A cursor is a named position over everything that has arrived at a fragment: what lies behind
it may be gone, what lies before it is kept for it even after its receivers have settled it,
within the limits that the cursor asked for. Reading a range changes nothing and disturbs nobody.
"""

from dataclasses import dataclass
from typing import Protocol

from partibus.domain.errors import BusError
from partibus.fragment.commands import Command, SubQueueType
from partibus.fragment.ports import AnswerPort, MessagesPort


@dataclass(eq=False)
class CursorSummary:
    """Where a cursor stands."""

    name: str
    position: int
    """The number of the first message that it has not passed."""
    retain_ms: int
    """How old a settled message may grow that is kept for it."""
    retain_bytes: int
    moved_ms: int


@dataclass(eq=False)
class RangePlan:
    """What can be read from a number on."""

    earliest: int
    """The lowest number from which nothing is missing that was kept."""
    end: int
    """The number behind the last message within the limits."""
    count: int
    byte_count: int
    next_sequence: int
    """The number that the next message will have."""


class CursorPort(Protocol):
    """Where the answers about a cursor go."""

    def placed(self, cursor: CursorSummary) -> None:
        """The cursor stands there, durably."""
        ...

    def failed(self, error: BusError) -> None:
        """Nothing was changed."""
        ...


class CursorsPort(Protocol):
    """Where the list of cursors goes."""

    def cursors_listed(self, cursors: list[CursorSummary]) -> None:
        """Every cursor of the fragment."""
        ...


class PlanPort(Protocol):
    """Where the plan of a read goes."""

    def planned(self, plan: RangePlan) -> None:
        """What there is."""
        ...

    def failed(self, error: BusError) -> None:
        """The plan failed."""
        ...


class NumberPort(Protocol):
    """Where the number of a message goes."""

    def located(self, sequence: int) -> None:
        """The number."""
        ...


@dataclass(eq=False)
class FindTime(Command):
    """Tell the number of the first message that was enqueued at or after a time."""

    port: NumberPort
    enqueued_ms: int


@dataclass(eq=False)
class PlaceCursor(Command):
    """Make a cursor or move it; a position beyond the end is the end."""

    port: CursorPort
    name: str
    position: int
    retain_ms: int
    retain_bytes: int


@dataclass(eq=False)
class DropCursor(Command):
    """Forget a cursor and what is kept for it alone."""

    port: AnswerPort
    name: str


@dataclass(eq=False)
class ListCursors(Command):
    """Tell which cursors there are."""

    port: CursorsPort


@dataclass(eq=False)
class PlanRange(Command):
    """Tell how far a read from a number on would come within the limits.

    A subqueue of None is what waits, as for ReadRange."""

    port: PlanPort
    subqueue: SubQueueType | None
    from_sequence: int
    count_max: int
    byte_count_max: int


@dataclass(eq=False)
class ReadRange(Command):
    """Copies of what has arrived, from a number up to another, in order, as many as fit.

    A subqueue of None is what waits in the main queue: without what was dead-lettered since, and
    without what is only kept for cursors."""

    port: MessagesPort
    subqueue: SubQueueType | None
    from_sequence: int
    to_sequence: int
    """Not included."""
    count_max: int
    byte_count_max: int
