"""Changes of an outbox, and of the marks at a destination, that wait for their records.

Owns only shapes; `departures`, `transfers` and `marks` prepare them and carry them out.
"""

from partibus.fragment.changes import Change
from partibus.fragment.commands import Lane
from partibus.fragment.message import Held, Overlay
from partibus.fragment.outbox.commands import Transfer
from partibus.fragment.outbox.marks import Mark
from partibus.fragment.outbox.state import Purpose
from partibus.fragment.ports import AnswerPort
from partibus.store.record import Record


class Departure(Change):
    """Waiting messages of a lane enter the outbox."""

    __slots__ = ("first_number", "lane", "messages", "path", "purpose")

    def __init__(
        self,
        records: list[Record],
        lane: Lane,
        messages: list[Held],
        first_number: int,
        purpose: Purpose,
        path: str,
    ) -> None:
        self.records = records
        self.lane = lane
        self.messages = messages
        self.first_number = first_number
        self.purpose = purpose
        self.path = path


class TransferArrival(Change):
    """Messages for another entity, with the outbox number of the first."""

    __slots__ = ("command", "enqueued_ms", "first_number")

    def __init__(
        self, records: list[Record], command: Transfer, first_number: int, enqueued_ms: int
    ) -> None:
        self.records = records
        self.command = command
        self.first_number = first_number
        self.enqueued_ms = enqueued_ms


class HandedOver(Change):
    """Parcels leave the fragment for good."""

    __slots__ = ("numbers", "port")

    def __init__(self, records: list[Record], numbers: list[int], port: AnswerPort) -> None:
        self.records = records
        self.numbers = numbers
        self.port = port


class BroughtBack(Change):
    """Parcels return to a lane; dead letters may leave again at once (`onward`)."""

    __slots__ = ("first_number", "lane", "numbers", "onward", "overlay", "port")

    def __init__(
        self,
        records: list[Record],
        numbers: list[int],
        lane: Lane,
        overlay: Overlay | None,
        port: AnswerPort,
    ) -> None:
        self.records = records
        self.numbers = numbers
        self.lane = lane
        self.overlay = overlay
        self.port = port
        self.onward = ""
        """Where the entity forwards its dead letters, when they go on from there."""
        self.first_number = 0
        """Their new outbox numbers begin here then."""


class Redirection(Change):
    """Parcels are bound to another path, under new numbers."""

    __slots__ = ("first_number", "numbers", "path", "port")

    def __init__(
        self,
        records: list[Record],
        numbers: list[int],
        first_number: int,
        path: str,
        port: AnswerPort,
    ) -> None:
        self.records = records
        self.numbers = numbers
        self.first_number = first_number
        self.path = path
        self.port = port


class Fencing(Change):
    """Numbers above a mark are closed."""

    __slots__ = ("mark", "origin_id", "port")

    def __init__(self, records: list[Record], origin_id: int, mark: Mark, port: AnswerPort) -> None:
        self.records = records
        self.origin_id = origin_id
        self.mark = mark
        self.port = port
