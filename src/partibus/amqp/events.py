"""What the engine reports to its owner, in the order in which it happened.

Owns the event classes and nothing else: plain slots, no behaviour beyond a text form.
Events come out of `Connection.receive_data`, `Connection.sasl_outcome` and
`Connection.tick`; the owner acts on them by calling the connection, session or link.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from partibus.amqp.delivery import Delivery, DeliveryState
from partibus.amqp.errors import AmqpError
from partibus.amqp.performatives import OpenFrame

if TYPE_CHECKING:
    from partibus.amqp.link import Link
    from partibus.amqp.session import Session


class Event:
    """The root of all events."""

    __slots__ = ()
    fields: ClassVar[tuple[str, ...]] = ()

    def __repr__(self) -> str:
        values = ", ".join([f"{name}={getattr(self, name)!r}" for name in self.fields])
        return f"{type(self).__name__}({values})"


# --- SASL -------------------------------------------------------------------------------------


@dataclass(eq=False)
class SaslInitReceived(Event):
    """The peer authenticates; answer with `Connection.sasl_outcome`, now or later."""

    mechanism: str
    response: bytes
    hostname: str


@dataclass(eq=False)
class SaslOutcomeReceived(Event):
    """The peer has judged us; 0 is success, anything else closed the connection."""

    code: int


# --- the connection ---------------------------------------------------------------------------


@dataclass(eq=False)
class OpenReceived(Event):
    """The peer opened; a listener answers with `Connection.open`, or `close` to refuse."""

    frame: OpenFrame


@dataclass(eq=False)
class CloseReceived(Event):
    """The peer closed, or confirmed our close. All sessions and links are gone."""

    error: AmqpError | None


@dataclass(eq=False)
class ConnectionFailed(Event):
    """The connection was closed by this side. All sessions and links are gone."""

    error: AmqpError


# --- sessions ---------------------------------------------------------------------------------


@dataclass(eq=False)
class BeginReceived(Event):
    """The peer began a session; the begin that answers it is already queued."""

    session: "Session"


@dataclass(eq=False)
class BeginConfirmed(Event):
    """The peer answered our begin."""

    session: "Session"


@dataclass(eq=False)
class EndReceived(Event):
    """The peer ended a session (already answered), or confirmed our end. Its links are gone."""

    session: "Session"
    error: AmqpError | None


@dataclass(eq=False)
class SessionFailed(Event):
    """The peer broke a rule and this side ended the session. Its links are gone."""

    session: "Session"
    error: AmqpError


# --- links ------------------------------------------------------------------------------------


@dataclass(eq=False)
class AttachReceived(Event):
    """The peer wants a link; answer with `Link.accept` or `Link.refuse`, now or later."""

    link: "Link"


@dataclass(eq=False)
class AttachConfirmed(Event):
    """The peer answered our attach; a refusal has neither source nor target."""

    link: "Link"


@dataclass(eq=False)
class DetachReceived(Event):
    """The peer detached (already answered), or confirmed our detach. Comes once per link."""

    link: "Link"
    closed: bool
    error: AmqpError | None


@dataclass(eq=False)
class LinkFailed(Event):
    """The link was detached by this side: the peer broke a rule, or the link was stolen."""

    link: "Link"
    error: AmqpError


class FlowReceived(Event):
    """On a link where we send: credit or drain changed, or its session takes more again.

    On a link where we receive: the peer has answered our drain.
    """

    __slots__ = ("link",)
    fields: ClassVar[tuple[str, ...]] = ("link",)

    def __init__(self, link: "Link") -> None:
        self.link = link


# --- messages ---------------------------------------------------------------------------------


class TransferReceived(Event):
    """A whole message, put together from all its frames.

    A peer that does not wait may send before its attach was answered, and the answer may
    have been a refusal: the owner drops what comes on a link that it has not accepted.

    A large message is not copied to be reported: buf[start:end] is the payload of its first
    frame, and `rest` has those of the others. `payload` is the whole as bytes, made at each use.
    """

    __slots__ = (
        "buf",
        "delivery_id",
        "end",
        "link",
        "message_format",
        "rest",
        "settled",
        "start",
        "state",
        "tag",
    )
    fields: ClassVar[tuple[str, ...]] = (
        "link",
        "delivery_id",
        "tag",
        "message_format",
        "settled",
        "payload",
        "state",
    )

    def __init__(
        self,
        link: "Link",
        delivery_id: int,
        tag: bytes,
        message_format: int,
        settled: bool,
        state: DeliveryState | None,
        buf: bytes,
        start: int,
        end: int,
        rest: list[bytes | memoryview] | None = None,
    ) -> None:
        self.link = link
        self.delivery_id = delivery_id
        self.tag = tag
        self.message_format = message_format
        self.settled = settled
        self.state = state
        self.buf = buf
        self.start = start
        self.end = end
        self.rest = rest

    @property
    def payload(self) -> bytes:
        if not self.rest:
            return self.buf[self.start : self.end]
        return b"".join([memoryview(self.buf)[self.start : self.end], *self.rest])


@dataclass(eq=False)
class TransferRefused(Event):
    """A message that was part of something larger was refused by the engine itself.

    It was larger than the link takes, and has been answered; whoever keeps the transaction that
    its state names must know that a part is missing [4.4.1].
    """

    link: "Link"
    state: DeliveryState


class DispositionReceived(Event):
    """The peer speaks of messages that we sent; settled ones are already forgotten."""

    __slots__ = ("deliveries", "settled", "state")
    fields: ClassVar[tuple[str, ...]] = ("deliveries", "settled", "state")

    def __init__(
        self, deliveries: list[Delivery], settled: bool, state: DeliveryState | None
    ) -> None:
        self.deliveries = deliveries
        self.settled = settled
        self.state = state


class IncomingSettled(Event):
    """The peer settled, as their sender, the deliveries `first` to `last` that it sent us."""

    __slots__ = ("first", "last", "session", "state")
    fields: ClassVar[tuple[str, ...]] = ("session", "first", "last", "state")

    def __init__(
        self, session: "Session", first: int, last: int, state: DeliveryState | None
    ) -> None:
        self.session = session
        self.first = first
        self.last = last
        self.state = state
