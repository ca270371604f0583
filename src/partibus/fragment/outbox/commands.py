"""What a courier, a transaction and a destination ask of a fragment, as data.

Owns the commands of an outbox: collect parcels, tell that they were handed over, bring them
back or send them elsewhere, take a message in for another entity; and of the marks at a
destination. A courier runs beside the fragment it serves, so only what is said to other
fragments travels between processes: `Transfer` and `Fence`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from partibus.domain.errors import BusError
from partibus.fragment.commands import Command, SubQueueType
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
        """The bodies of these cannot be read."""
        ...


@dataclass(eq=False)
class Collect(Command):
    """Give parcels from an outbox number on; answered when there are any."""

    port: ParcelPort
    from_number: int
    message_count_max: int
    byte_count_max: int


@dataclass(eq=False)
class Fetch(Command):
    """Give certain parcels once more, those of them that are still there."""

    port: ParcelPort
    numbers: list[int]


@dataclass(eq=False)
class Forwarded(Command):
    """Parcels were handed over: they are the destination's from now on."""

    port: AnswerPort
    numbers: list[int]


@dataclass(eq=False)
class BringBack(Command):
    """Parcels go nowhere: they return to a subqueue of their fragment."""

    port: AnswerPort
    numbers: list[int]
    subqueue: SubQueueType
    overlay: Overlay | None
    """Why, where they become dead letters."""


@dataclass(eq=False)
class Redirect(Command):
    """Parcels go to another entity, or again to the same, under new outbox numbers.

    What was sent under an old number is never sent again, so a destination that has seen
    higher ones cannot take the message for a repetition."""

    port: AnswerPort
    numbers: list[int]
    path: str


@dataclass(eq=False)
class ForwardWaiting(Command):
    """The entity's forwarding has changed: let what waits follow it.

    Messages of the main subqueue leave while the entity forwards, whoever asks; dead letters only
    `with_dead_letters`, since those whose forwarding failed stay where they are."""

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


@dataclass(eq=False)
class Fence(Command):
    """Take nothing more from an origin up to an outbox number, and tell what was taken.

    `done` is called with the mark. What lies between it and `number` is not here and never will be
    under that number, so the origin may do with it what it likes; until it has done so durably
    it sends nothing higher here."""

    port: AnswerPort
    origin_id: int
    number: int
