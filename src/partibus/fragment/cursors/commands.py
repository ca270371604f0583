"""What a fragment can be asked to do with cursors, and reads of ranges, as data.

A cursor is a named position over everything that has arrived at a fragment: messages it has passed
may be gone; those it has not passed are kept even after receivers have settled them, within the
limits that the cursor asked for. Reading a range changes nothing and disturbs nobody.
"""

from dataclasses import dataclass
from typing import Protocol

from partibus.fragment.commands import AnsweredCommand, SubQueueType
from partibus.fragment.ports import AnswerPort, FailurePort, MessagesPort


@dataclass(eq=False)
class CursorSummary:
    """The position of a cursor."""

    name: str
    position: int
    """The number of the first message that it has not passed."""
    retain_ms: int
    """The age up to which a settled message is kept for it."""
    retain_bytes: int
    moved_ms: int


@dataclass(eq=False)
class RangePlan:
    """What can be read from a number on."""

    earliest: int
    """The lowest number from which on no kept message is missing."""
    end: int
    """The number after the last message within the limits."""
    count: int
    byte_count: int
    next_sequence: int
    """The number that the next message will have."""


class CursorPort(FailurePort, Protocol):
    """Where the answers about a cursor go."""

    def placed(self, cursor: CursorSummary) -> None:
        """The cursor is there, durably."""
        ...


class CursorsPort(FailurePort, Protocol):
    """Where the list of cursors goes."""

    def cursors_listed(self, cursors: list[CursorSummary]) -> None:
        """Every cursor of the fragment."""
        ...


class PlanPort(FailurePort, Protocol):
    """Where the plan of a read goes."""

    def planned(self, plan: RangePlan) -> None:
        """The plan."""
        ...


class NumberPort(FailurePort, Protocol):
    """Where the number of a message goes."""

    def located(self, sequence: int) -> None:
        """The number."""
        ...


@dataclass(eq=False)
class FindTime(AnsweredCommand):
    """Find the number of the first message that was enqueued at or after a time."""

    port: NumberPort
    enqueued_ms: int


@dataclass(eq=False)
class PlaceCursor(AnsweredCommand):
    """Create or move a cursor; a position beyond the end is the end."""

    port: CursorPort
    name: str
    position: int
    retain_ms: int
    retain_bytes: int


@dataclass(eq=False)
class DropCursor(AnsweredCommand):
    """Forget a cursor and what is kept for it alone."""

    port: AnswerPort
    name: str


@dataclass(eq=False)
class ListCursors(AnsweredCommand):
    """List the cursors."""

    port: CursorsPort


@dataclass(eq=False)
class PlanRange(AnsweredCommand):
    """Find how far a read from a number on would get within the limits.

    A subqueue of None means waiting messages, as for ReadRange.
    """

    port: PlanPort
    subqueue: SubQueueType | None
    from_sequence: int
    count_max: int
    byte_count_max: int


@dataclass(eq=False)
class ReadRange(AnsweredCommand):
    """Copies of what has arrived, from a number up to another, in order, as many as fit.

    A subqueue of None means what waits in the main queue: without dead letters, and without
    messages that are only kept for cursors.
    """

    port: MessagesPort
    subqueue: SubQueueType | None
    from_sequence: int
    to_sequence: int
    """Not included."""
    count_max: int
    byte_count_max: int
