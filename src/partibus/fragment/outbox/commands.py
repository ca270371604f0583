"""What a courier, a transaction and a destination ask of a fragment, as data.

Owns the commands of an outbox: collect parcels, report that they were handed over, bring them back
or send them elsewhere, accept a message for another entity; and of the marks at a destination. A
courier runs in the process of its fragment, so only commands to other fragments travel between
processes: `Transfer` and `Fence`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from partibus.domain.errors import BusError
from partibus.fragment.commands import AnsweredCommand, Command, SubQueueType
from partibus.fragment.message import NewMessage, Overlay
from partibus.fragment.ports import AnswerPort, SendPort

if TYPE_CHECKING:
    from partibus.fragment.outbox.state import Parcel


class ParcelPort(Protocol):
    """Where parcels go: a courier."""

    def collected(self, parcels: "Sequence[Parcel]", bodies: Sequence[bytes]) -> None:
        """Parcels in the order of their numbers, with their bodies."""
        ...

    def unreadable(self, parcels: "Sequence[Parcel]", error: BusError) -> None:
        """The bodies of these cannot be read; without parcels, the command was refused."""
        ...


@dataclass(eq=False)
class Collect(Command):
    """Get parcels from an outbox number on; answered when there are any."""

    port: ParcelPort
    from_number: int
    message_count_max: int
    byte_count_max: int

    def refuse(self, error: BusError) -> None:
        self.port.unreadable((), error)


@dataclass(eq=False)
class Fetch(Command):
    """Get certain parcels again, those of them that are still there."""

    port: ParcelPort
    numbers: list[int]

    def refuse(self, error: BusError) -> None:
        self.port.unreadable((), error)


@dataclass(eq=False)
class Forwarded(AnsweredCommand):
    """Parcels were handed over: they belong to the destination from now on."""

    port: AnswerPort
    numbers: list[int]


@dataclass(eq=False)
class ReturnParcels(AnsweredCommand):
    """Parcels cannot be delivered: they return to a subqueue of their fragment."""

    port: AnswerPort
    numbers: list[int]
    subqueue: SubQueueType
    overlay: Overlay | None
    """The reason, when they become dead letters."""


@dataclass(eq=False)
class Redirect(AnsweredCommand):
    """Parcels go to another entity, or again to the same, under new outbox numbers.

    What was sent under an old number is never sent again, so a destination that has seen higher
    numbers cannot mistake the message for a repetition.
    """

    port: AnswerPort
    numbers: list[int]
    path: str


@dataclass(eq=False)
class ForwardWaiting(Command):
    """The entity's forwarding has changed: forward waiting messages accordingly.

    Messages of the main subqueue leave whenever the entity forwards; dead letters only
    `with_dead_letters`, since those whose forwarding failed stay where they are.
    """

    with_dead_letters: bool


@dataclass(eq=False)
class Transfer(Command):
    """Store messages for another entity in the outbox; they are confirmed once durable.

    The messages are bound to `path` and to no other, and fail into the transfer dead-letter
    queue (TDQ-2)."""

    port: SendPort
    messages: list[NewMessage]
    requests: list[int]
    byte_count: int
    path: str

    def refuse(self, error: BusError) -> None:
        self.port.refused(self.requests, error)


@dataclass(eq=False)
class Fence(AnsweredCommand):
    """Accept nothing more from an origin up to an outbox number, and report what was taken.

    `done` is called with the mark. Parcels between the mark and `number` are not here and never
    will be under those numbers, so the origin may do with them what it likes; until that is durable
    it sends nothing higher here.
    """

    port: AnswerPort
    origin_id: int
    number: int
