"""What a fragment can be asked to do with cursors, and reads of ranges, as data.

A cursor is a named position over everything that has arrived at a fragment: what lies behind
it may be gone, what lies before it is kept for it even after its receivers have settled it,
within the limits that the cursor asked for. Reading a range changes nothing and disturbs nobody.
"""

from typing import Protocol

from partibus.domain.errors import BusError
from partibus.fragment.commands import Command, Lane
from partibus.fragment.ports import AnswerPort, MessagesPort


class CursorSummary:
    """Where a cursor stands."""

    __slots__ = ("moved_ms", "name", "position", "retain_bytes", "retain_ms")

    def __init__(
        self, name: str, position: int, retain_ms: int, retain_bytes: int, moved_ms: int
    ) -> None:
        self.name = name
        self.position = position
        """The number of the first message that it has not passed."""
        self.retain_ms = retain_ms
        """How old a settled message may grow that is kept for it."""
        self.retain_bytes = retain_bytes
        self.moved_ms = moved_ms


class RangePlan:
    """What can be read from a number on."""

    __slots__ = ("byte_count", "count", "earliest", "end", "next_sequence")

    def __init__(
        self, earliest: int, end: int, count: int, byte_count: int, next_sequence: int
    ) -> None:
        self.earliest = earliest
        """The lowest number from which nothing is missing that was kept."""
        self.end = end
        """The number behind the last message within the limits."""
        self.count = count
        self.byte_count = byte_count
        self.next_sequence = next_sequence
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


class FindTime(Command):
    """Tell the number of the first message that was enqueued at or after a time."""

    __slots__ = ("enqueued_ms", "port")

    def __init__(self, port: NumberPort, enqueued_ms: int) -> None:
        self.port = port
        self.enqueued_ms = enqueued_ms


class PlaceCursor(Command):
    """Make a cursor or move it; a position beyond the end is the end."""

    __slots__ = ("name", "port", "position", "retain_bytes", "retain_ms")

    def __init__(
        self, port: CursorPort, name: str, position: int, retain_ms: int, retain_bytes: int
    ) -> None:
        self.port = port
        self.name = name
        self.position = position
        self.retain_ms = retain_ms
        self.retain_bytes = retain_bytes


class DropCursor(Command):
    """Forget a cursor and what is kept for it alone."""

    __slots__ = ("name", "port")

    def __init__(self, port: AnswerPort, name: str) -> None:
        self.port = port
        self.name = name


class ListCursors(Command):
    """Tell which cursors there are."""

    __slots__ = ("port",)

    def __init__(self, port: CursorsPort) -> None:
        self.port = port


class PlanRange(Command):
    """Tell how far a read from a number on would come within the limits.

    A lane of None is what waits, as for ReadRange."""

    __slots__ = ("byte_count_max", "count_max", "from_sequence", "lane", "port")

    def __init__(
        self,
        port: PlanPort,
        lane: Lane | None,
        from_sequence: int,
        count_max: int,
        byte_count_max: int,
    ) -> None:
        self.port = port
        self.lane = lane
        self.from_sequence = from_sequence
        self.count_max = count_max
        self.byte_count_max = byte_count_max


class ReadRange(Command):
    """Copies of what has arrived, from a number up to another, in order, as many as fit.

    A lane of None is what waits in the main queue: without what was dead-lettered since, and
    without what is only kept for cursors."""

    __slots__ = ("byte_count_max", "count_max", "from_sequence", "lane", "port", "to_sequence")

    def __init__(
        self,
        port: MessagesPort,
        lane: Lane | None,
        from_sequence: int,
        to_sequence: int,
        count_max: int,
        byte_count_max: int,
    ) -> None:
        self.port = port
        self.lane = lane
        self.from_sequence = from_sequence
        self.to_sequence = to_sequence
        """Not included."""
        self.count_max = count_max
        self.byte_count_max = byte_count_max
