"""What a courier, a transaction and a destination ask of a fragment, as data.

Owns the commands of an outbox: collect parcels, tell that they were handed over, bring them
back or send them elsewhere, take a message in for another entity; and of the marks at a
destination. A courier runs beside the fragment it serves, so only what is said to other
fragments travels between processes: `Transfer` and `Fence`.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from partibus.domain.errors import BusError
from partibus.fragment.commands import Command, Lane
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


class Collect(Command):
    """Give parcels from an outbox number on; answered when there are any."""

    __slots__ = ("byte_count_max", "from_number", "message_count_max", "port")

    def __init__(
        self, port: ParcelPort, from_number: int, message_count_max: int, byte_count_max: int
    ) -> None:
        self.port = port
        self.from_number = from_number
        self.message_count_max = message_count_max
        self.byte_count_max = byte_count_max


class Fetch(Command):
    """Give certain parcels once more, those of them that are still there."""

    __slots__ = ("numbers", "port")

    def __init__(self, port: ParcelPort, numbers: list[int]) -> None:
        self.port = port
        self.numbers = numbers


class Forwarded(Command):
    """Parcels were handed over: they are the destination's from now on."""

    __slots__ = ("numbers", "port")

    def __init__(self, port: AnswerPort, numbers: list[int]) -> None:
        self.port = port
        self.numbers = numbers


class BringBack(Command):
    """Parcels go nowhere: they return to a lane of their fragment."""

    __slots__ = ("lane", "numbers", "overlay", "port")

    def __init__(
        self, port: AnswerPort, numbers: list[int], lane: Lane, overlay: Overlay | None
    ) -> None:
        self.port = port
        self.numbers = numbers
        self.lane = lane
        self.overlay = overlay
        """Why, where they become dead letters."""


class Redirect(Command):
    """Parcels go to another entity, or again to the same, under new outbox numbers.

    What was sent under an old number is never sent again, so a destination that has seen
    higher ones cannot take the message for a repetition."""

    __slots__ = ("numbers", "path", "port")

    def __init__(self, port: AnswerPort, numbers: list[int], path: str) -> None:
        self.port = port
        self.numbers = numbers
        self.path = path


class ForwardWaiting(Command):
    """The entity's forwarding has changed: let what waits follow it.

    Messages of the main lane leave while the entity forwards, whoever asks; dead letters only
    `with_dead_letters`, since those whose forwarding failed stay where they are."""

    __slots__ = ("with_dead_letters",)

    def __init__(self, with_dead_letters: bool) -> None:
        self.with_dead_letters = with_dead_letters


class Transfer(Command):
    """Store messages for another entity in the outbox; they are confirmed once durable.

    The messages are bound to `path` and to no other, and fail into the transfer dead-letter
    queue (TDQ-2)."""

    __slots__ = ("byte_count", "messages", "path", "port", "requests")

    def __init__(
        self,
        port: SendPort,
        messages: list[NewMessage],
        requests: list[int],
        byte_count: int,
        path: str,
    ) -> None:
        self.port = port
        self.messages = messages
        self.requests = requests
        self.byte_count = byte_count
        self.path = path


class Fence(Command):
    """Take nothing more from an origin up to an outbox number, and tell what was taken.

    `done` is called with the mark. What lies between it and `number` is not here and never will be
    under that number, so the origin may do with it what it likes; until it has done so durably
    it sends nothing higher here."""

    __slots__ = ("number", "origin_id", "port")

    def __init__(self, port: AnswerPort, origin_id: int, number: int) -> None:
        self.port = port
        self.origin_id = origin_id
        self.number = number
