"""What is prepared about cursors, until it is durable.

Owns the changes that the commands about cursors make, and the trimming of what is kept: each has
its records and what is needed to carry it out. Made and finished by `cursors`.
"""

from partibus.fragment.changes import Change
from partibus.fragment.cursors.commands import CursorPort, CursorSummary, DropCursor
from partibus.store.record import Record


class CursorPlacement(Change):
    """A cursor stands where it was asked to."""

    __slots__ = ("cursor", "port")

    def __init__(self, records: list[Record], cursor: CursorSummary, port: CursorPort) -> None:
        self.records = records
        self.cursor = cursor
        self.port = port


class CursorDrop(Change):
    """A cursor is no more."""

    __slots__ = ("command",)

    def __init__(self, records: list[Record], command: DropCursor) -> None:
        self.records = records
        self.command = command


class Trim(Change):
    """Nothing below a number is kept any more."""

    __slots__ = ("floor",)

    def __init__(self, records: list[Record], floor: int) -> None:
        self.records = records
        self.floor = floor
