"""Changes of an outbox, and of the marks at a destination, that wait for their records.

Owns only shapes; `departures`, `transfers` and `marks` prepare them and carry them out.
"""

from dataclasses import dataclass

from partibus.fragment.changes import Change
from partibus.fragment.commands import SubQueueType
from partibus.fragment.message import Held, Overlay
from partibus.fragment.outbox.commands import Transfer
from partibus.fragment.outbox.marks import Mark
from partibus.fragment.outbox.state import Purpose
from partibus.fragment.ports import AnswerPort


@dataclass(eq=False)
class Departure(Change):
    """Waiting messages of a subqueue enter the outbox."""

    subqueue: SubQueueType
    messages: list[Held]
    first_number: int
    purpose: Purpose
    path: str


@dataclass(eq=False)
class TransferArrival(Change):
    """Messages for another entity, with the outbox number of the first."""

    command: Transfer
    first_number: int
    enqueued_ms: int


@dataclass(eq=False)
class HandedOver(Change):
    """Parcels leave the fragment for good."""

    numbers: list[int]
    port: AnswerPort


@dataclass(eq=False)
class ParcelsReturned(Change):
    """Parcels return to a subqueue; dead letters may leave again at once (`onward`)."""

    numbers: list[int]
    subqueue: SubQueueType
    overlay: Overlay | None
    port: AnswerPort
    onward: str = ""
    """Where the entity forwards its dead letters, when they go on from there."""
    first_number: int = 0
    """The first of their new outbox numbers in that case."""


@dataclass(eq=False)
class Redirection(Change):
    """Parcels are bound to another path, under new numbers."""

    numbers: list[int]
    first_number: int
    path: str
    port: AnswerPort


@dataclass(eq=False)
class Fencing(Change):
    """Numbers above a mark are closed."""

    origin_id: int
    mark: Mark
    port: AnswerPort
