"""The consequences of a command, in the order in which they must happen.

The machine fills an `Effects`; the broker that runs it appends the records, reads the bodies
and carries the effects out. The machine itself calls nobody.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from partibus.domain.errors import BusError
from partibus.fragment.changes import Change
from partibus.fragment.commands import Consumer
from partibus.fragment.message import Held
from partibus.fragment.outbox.commands import ParcelPort
from partibus.fragment.outbox.state import Parcel
from partibus.fragment.ports import AnswerPort, FailurePort, MessagesPort, SendPort, SettlePort

Value = TypeVar("Value")

_log: Final = logging.getLogger(__name__)


class Effect:
    """A call of a port or a receiver."""

    __slots__ = ()

    def carry_out(self) -> None:
        """Make the call."""
        raise NotImplementedError


class Confirmed(Effect):
    """Sends are durable."""

    __slots__ = ("dropped", "first_sequence", "port", "requests")

    def __init__(
        self, port: SendPort, requests: list[int], first_sequence: int, dropped: Sequence[int] = ()
    ) -> None:
        self.port = port
        self.requests = requests
        self.first_sequence = first_sequence
        self.dropped = dropped

    def carry_out(self) -> None:
        self.port.confirmed(self.requests, self.first_sequence, self.dropped)


@dataclass(eq=False)
class DuplicatesDropped(Effect):
    """Duplicates were dropped; the broker counts them (DUP-10)."""

    path: str
    count: int
    message_id: str

    def carry_out(self) -> None:
        _log.debug(
            "%d duplicates sent to '%s' were dropped since the last such line; "
            "the latest has the MessageId %r",
            self.count,
            self.path,
            self.message_id,
        )


@dataclass(eq=False)
class Refused(Effect):
    """Sends were not stored."""

    port: SendPort
    requests: list[int]
    error: BusError

    def carry_out(self) -> None:
        self.port.refused(self.requests, self.error)


class Settled(Effect):
    """A settlement ended."""

    __slots__ = ("error", "lost", "port", "request")

    def __init__(
        self, port: SettlePort, request: object, lost: Sequence[int], error: BusError | None
    ) -> None:
        self.port = port
        self.request = request
        self.lost = lost
        self.error = error

    def carry_out(self) -> None:
        self.port.settled(self.request, self.lost, self.error)


class Answered(Effect, Generic[Value]):
    """A port gets the one value it waits for; a generic dataclass cannot be compiled."""

    __slots__ = ("method", "value")

    def __init__(self, method: Callable[[Value], None], value: Value) -> None:
        self.method = method
        self.value = value

    def carry_out(self) -> None:
        self.method(self.value)


@dataclass(eq=False)
class Done(Effect):
    """An operation succeeded."""

    port: AnswerPort
    count: int

    def carry_out(self) -> None:
        self.port.done(self.count)


@dataclass(eq=False)
class Failed(Effect):
    """An operation changed nothing."""

    port: FailurePort
    error: BusError

    def carry_out(self) -> None:
        self.port.failed(self.error)


@dataclass(eq=False)
class Drained(Effect):
    """A receiver's drain is answered."""

    consumer: Consumer

    def carry_out(self) -> None:
        self.consumer.receiver.drained()


@dataclass(eq=False)
class Available(Effect):
    """A receiver is notified that messages wait."""

    consumer: Consumer

    def carry_out(self) -> None:
        self.consumer.receiver.available()


class BodyEffect(Effect):
    """An effect whose messages need their bodies read first."""

    __slots__ = ("consumed", "messages")

    def __init__(self, messages: list[Held], consumed: bool) -> None:
        self.messages = messages
        self.consumed = consumed
        """The messages are gone; their bodies may be released once they are read."""

    def hand_over(self, bodies: list[bytes]) -> None:
        """Make the call with the bodies."""
        raise NotImplementedError

    def unreadable(self, error: BusError) -> None:
        """Report that the bodies cannot be read."""
        raise NotImplementedError

    def free(self, release: Callable[[int, int], None]) -> None:
        """The bodies of messages that are gone are not needed any more, read or not."""
        if self.consumed:
            for held in self.messages:
                release(held.position, held.length)


class Deliver(BodyEffect):
    """Messages for a receiver."""

    __slots__ = ("consumer",)

    def __init__(self, consumer: Consumer, messages: list[Held], consumed: bool) -> None:
        super().__init__(messages, consumed)
        self.consumer = consumer

    def hand_over(self, bodies: list[bytes]) -> None:
        self.consumer.receiver.deliver(self.messages, bodies)


class Found(BodyEffect):
    """Messages that were asked for by number, or looked at."""

    __slots__ = ("port",)

    def __init__(self, port: MessagesPort, messages: list[Held], consumed: bool) -> None:
        super().__init__(messages, consumed)
        self.port = port

    def hand_over(self, bodies: list[bytes]) -> None:
        self.port.found(self.messages, bodies)

    def unreadable(self, error: BusError) -> None:
        self.port.failed(error)


class Shown(Found):
    """Messages that are peeked or received by number; one whose body is damaged gets an empty body,
    which no message has, so that the others are returned all the same."""

    __slots__ = ()

    def peeked_messages(self) -> "list[PeekedMessage]":
        """The same, read one by one."""
        gathering = Gathering(self)
        return [
            PeekedMessage(gathering, index, held, self.consumed)
            for index, held in enumerate(self.messages)
        ]


class Gathering:
    """The bodies of peeked messages, read one by one."""

    __slots__ = ("_bodies", "_error", "_left", "_shown")

    def __init__(self, shown: Shown) -> None:
        self._shown = shown
        self._bodies: list[bytes] = [b""] * len(shown.messages)
        self._left = len(shown.messages)
        self._error: BusError | None = None

    def put(self, index: int, body: bytes) -> None:
        """One was read, or is known to be damaged."""
        self._bodies[index] = body
        self._end_one()

    def fail(self, error: BusError) -> None:
        """One cannot be read now; a partial answer would look like a complete one."""
        self._error = error
        self._end_one()

    def _end_one(self) -> None:
        self._left -= 1
        if self._left:
            return
        if self._error is None:
            self._shown.hand_over(self._bodies)
        else:
            self._shown.unreadable(self._error)


class PeekedMessage(BodyEffect):
    """One message of a peek."""

    __slots__ = ("_gathering", "_index")

    def __init__(self, gathering: Gathering, index: int, held: Held, consumed: bool) -> None:
        super().__init__([held], consumed)
        self._gathering = gathering
        self._index = index

    def hand_over(self, bodies: list[bytes]) -> None:
        self._gathering.put(self._index, bodies[0])

    def not_read(self, error: BusError, is_damaged: bool) -> None:
        """The body cannot be read: never, or not now."""
        if is_damaged:
            self._gathering.put(self._index, b"")
        else:
            self._gathering.fail(error)


class Collected(BodyEffect):
    """Parcels for a courier."""

    __slots__ = ("parcels", "port")

    def __init__(self, port: ParcelPort, parcels: list[Parcel]) -> None:
        super().__init__([parcel.held for parcel in parcels], False)
        self.port = port
        self.parcels = parcels

    def hand_over(self, bodies: list[bytes]) -> None:
        self.port.collected(self.parcels, bodies)

    def unreadable(self, error: BusError) -> None:
        self.port.unreadable(self.parcels, error)


class Due(BodyEffect):
    """Scheduled messages of a topic whose bodies are needed to publish them."""

    __slots__ = ("fragment_id",)

    def __init__(self, fragment_id: int, messages: list[Held]) -> None:
        super().__init__(messages, False)
        self.fragment_id = fragment_id


class Effects:
    """The effects of one step of the machine."""

    __slots__ = ("changes", "elsewhere", "outward", "released", "retained")

    def __init__(self) -> None:
        self.changes: list[Change] = []
        """Records to make durable, each with the change that it stands for."""
        self.elsewhere: list[tuple[int, Change]] = []
        """Changes of other fragments of the same store, by their ids: durable with `changes`."""
        self.outward: list[Effect] = []
        self.retained: list[tuple[int, int]] = []
        """Bodies, by position and length, that one more message shares from now on."""
        self.released: list[Held] = []
        """Messages whose bodies are no longer needed."""
