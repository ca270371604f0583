"""What the engine reports to its owner, in the order in which it happened.

Owns the event classes and nothing else: plain slots, no behaviour beyond a text form.
Events come out of `Connection.receive_data`, `Connection.sasl_outcome` and
`Connection.tick`; the owner acts on them by calling the connection, session or link.
"""

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


class SaslInitReceived(Event):
    """The peer authenticates; answer with `Connection.sasl_outcome`, now or later."""

    __slots__ = ("hostname", "mechanism", "response")
    fields: ClassVar[tuple[str, ...]] = ("mechanism", "response", "hostname")

    def __init__(self, mechanism: str, response: bytes, hostname: str) -> None:
        self.mechanism = mechanism
        self.response = response
        self.hostname = hostname


class SaslOutcomeReceived(Event):
    """The peer's SASL outcome; 0 is success, anything else has closed the connection."""

    __slots__ = ("code",)
    fields: ClassVar[tuple[str, ...]] = ("code",)

    def __init__(self, code: int) -> None:
        self.code = code


# --- the connection ---------------------------------------------------------------------------


class OpenReceived(Event):
    """The peer opened; a listener answers with `Connection.open`, or `close` to refuse."""

    __slots__ = ("frame",)
    fields: ClassVar[tuple[str, ...]] = ("frame",)

    def __init__(self, frame: OpenFrame) -> None:
        self.frame = frame


class CloseReceived(Event):
    """The peer closed, or confirmed our close. All sessions and links are gone."""

    __slots__ = ("error",)
    fields: ClassVar[tuple[str, ...]] = ("error",)

    def __init__(self, error: AmqpError | None) -> None:
        self.error = error


class ConnectionFailed(Event):
    """The connection was closed by this side. All sessions and links are gone."""

    __slots__ = ("error",)
    fields: ClassVar[tuple[str, ...]] = ("error",)

    def __init__(self, error: AmqpError) -> None:
        self.error = error


# --- sessions ---------------------------------------------------------------------------------


class BeginReceived(Event):
    """The peer began a session; the begin that answers it is already queued."""

    __slots__ = ("session",)
    fields: ClassVar[tuple[str, ...]] = ("session",)

    def __init__(self, session: "Session") -> None:
        self.session = session


class BeginConfirmed(Event):
    """The peer answered our begin."""

    __slots__ = ("session",)
    fields: ClassVar[tuple[str, ...]] = ("session",)

    def __init__(self, session: "Session") -> None:
        self.session = session


class EndReceived(Event):
    """The peer ended a session (already answered), or confirmed our end. Its links are gone."""

    __slots__ = ("error", "session")
    fields: ClassVar[tuple[str, ...]] = ("session", "error")

    def __init__(self, session: "Session", error: AmqpError | None) -> None:
        self.session = session
        self.error = error


class SessionFailed(Event):
    """The peer violated a rule and this side ended the session. Its links are gone."""

    __slots__ = ("error", "session")
    fields: ClassVar[tuple[str, ...]] = ("session", "error")

    def __init__(self, session: "Session", error: AmqpError) -> None:
        self.session = session
        self.error = error


# --- links ------------------------------------------------------------------------------------


class AttachReceived(Event):
    """The peer wants a link; answer with `Link.accept` or `Link.refuse`, now or later."""

    __slots__ = ("link",)
    fields: ClassVar[tuple[str, ...]] = ("link",)

    def __init__(self, link: "Link") -> None:
        self.link = link


class AttachConfirmed(Event):
    """The peer answered our attach; a refusal has neither source nor target."""

    __slots__ = ("link",)
    fields: ClassVar[tuple[str, ...]] = ("link",)

    def __init__(self, link: "Link") -> None:
        self.link = link


class DetachReceived(Event):
    """The peer detached (already answered), or confirmed our detach. Comes once per link."""

    __slots__ = ("closed", "error", "link")
    fields: ClassVar[tuple[str, ...]] = ("link", "closed", "error")

    def __init__(self, link: "Link", closed: bool, error: AmqpError | None) -> None:
        self.link = link
        self.closed = closed
        self.error = error


class LinkFailed(Event):
    """The link was detached by this side: the peer violated a rule, or the link was stolen."""

    __slots__ = ("error", "link")
    fields: ClassVar[tuple[str, ...]] = ("link", "error")

    def __init__(self, link: "Link", error: AmqpError) -> None:
        self.link = link
        self.error = error


class FlowReceived(Event):
    """On a link where we send: credit or drain changed, or its session has room again.

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


class TransferRefused(Event):
    """A message that was part of something larger was refused by the engine itself.

    It was larger than the link accepts, and has been answered; the owner of the transaction in its
    state must know that a part is missing [4.4.1].
    """

    __slots__ = ("link", "state")
    fields: ClassVar[tuple[str, ...]] = ("link", "state")

    def __init__(self, link: "Link", state: DeliveryState) -> None:
        self.link = link
        self.state = state


class DispositionReceived(Event):
    """The outcome of messages that we sent; settled ones are already forgotten."""

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
