"""The consequences of a command, in the order in which they must happen.

The machine fills an `Effects`; the broker that runs it appends the records, reads the bodies
and carries the effects out. The machine itself calls nobody.
"""

from collections.abc import Sequence

from partibus.domain.errors import BusError
from partibus.fragment.changes import Change
from partibus.fragment.commands import (
    AnswerPort,
    Consumer,
    MessagesPort,
    RenewPort,
    SendPort,
    SettlePort,
)
from partibus.fragment.message import Held


class Effect:
    """Something to tell to a port or a receiver."""

    __slots__ = ()

    def carry_out(self) -> None:
        """Make the call."""
        raise NotImplementedError


class Confirmed(Effect):
    """Sends are durable."""

    __slots__ = ("first_sequence", "port", "requests")

    def __init__(self, port: SendPort, requests: list[int], first_sequence: int) -> None:
        self.port = port
        self.requests = requests
        self.first_sequence = first_sequence

    def carry_out(self) -> None:
        self.port.confirmed(self.requests, self.first_sequence)


class Refused(Effect):
    """Sends were not stored."""

    __slots__ = ("error", "port", "requests")

    def __init__(self, port: SendPort, requests: list[int], error: BusError) -> None:
        self.port = port
        self.requests = requests
        self.error = error

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


class Renewed(Effect):
    """Locks were renewed."""

    __slots__ = ("port", "until_ms")

    def __init__(self, port: RenewPort, until_ms: list[int]) -> None:
        self.port = port
        self.until_ms = until_ms

    def carry_out(self) -> None:
        self.port.renewed(self.until_ms)


class Done(Effect):
    """An operation ended well."""

    __slots__ = ("count", "port")

    def __init__(self, port: AnswerPort, count: int) -> None:
        self.port = port
        self.count = count

    def carry_out(self) -> None:
        self.port.done(self.count)


class Failed(Effect):
    """An operation changed nothing."""

    __slots__ = ("error", "port")

    def __init__(self, port: AnswerPort | MessagesPort, error: BusError) -> None:
        self.port = port
        self.error = error

    def carry_out(self) -> None:
        self.port.failed(self.error)


class Drained(Effect):
    """A receiver's drain is answered."""

    __slots__ = ("consumer",)

    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer

    def carry_out(self) -> None:
        self.consumer.receiver.drained()


class Available(Effect):
    """A receiver hears that messages wait."""

    __slots__ = ("consumer",)

    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer

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


class Effects:
    """What one step of the machine brought about."""

    __slots__ = ("changes", "outward", "released")

    def __init__(self) -> None:
        self.changes: list[Change] = []
        """Records to make durable, each with what it will mean then."""
        self.outward: list[Effect] = []
        self.released: list[Held] = []
        """Messages whose bodies nobody needs any more."""
