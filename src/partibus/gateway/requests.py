"""Request and response over a pair of links: what `$cbs` and `$management` share.

Owns the reading of a request message, the writing of its answer, and the choice of the link for an
answer. The node decides what an operation does. Answers are sent settled, as the SDKs ask or
tolerate (amqp-contract 7.1).
"""

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from partibus.amqp.codec.decode import DecodeError, decode_value
from partibus.amqp.codec.encode import encode_value
from partibus.amqp.codec.sections import (
    AMQP_VALUE,
    MessageProperties,
    decode_application_properties,
    decode_properties,
    encode_application_properties,
    encode_properties,
    parse_in_order,
)
from partibus.amqp.codec.text import text_of
from partibus.amqp.delivery import ACCEPTED, TransactionalState, transactional_state
from partibus.amqp.events import TransferReceived
from partibus.amqp.link import Link
from partibus.domain.address import Address
from partibus.domain.errors import BusError, MalformedMessage
from partibus.gateway.error_mapping import rejection
from partibus.gateway.transactions.transaction import Transaction

if TYPE_CHECKING:
    from partibus.gateway.connection import ClientConnection

REQUEST_CREDIT: Final = 100
REQUESTS_OPEN_MAX: Final = 16
"""Requests of one connection that are handled, or whose answers wait to be written. An answer may
be a thousand times larger than its request; further requests wait unhandled."""
REQUESTS_WAITING_MAX: Final = 256
REQUEST_BYTES_WAITING_MAX: Final = 16 * 1024 * 1024
"""With more than this waiting, the connection is not read until some are answered."""
_VALUE_DESCRIPTOR: Final = bytes((0x00, 0x53, AMQP_VALUE))


class Request:
    """One request, with the fields that every node needs."""

    __slots__ = ("body", "link", "message_id", "operation", "properties", "reply_to", "transaction")

    def __init__(self, link: "RequestLink", payload: bytes) -> None:
        self.link = link
        self.transaction: Transaction | None = None
        """The transaction that it is part of, held until the request is handled."""
        try:
            payload, sections = parse_in_order(payload)
            properties = decode_properties(payload, sections)
            self.properties = decode_application_properties(payload, sections)
            self.body = self._value(payload, sections.body_offset)
        except DecodeError as cause:
            raise MalformedMessage(f"The request is not well-formed: {cause}.") from cause
        self.message_id = properties.message_id
        self.reply_to = text_of(properties.reply_to)
        self.operation = text_of(self.properties.get("operation")) or ""

    @staticmethod
    def _value(payload: bytes, offset: int) -> object:
        if offset < 0 or payload[offset : offset + 3] != _VALUE_DESCRIPTOR:
            return None
        return decode_value(payload, offset + 3, len(payload))[0]

    def answer(self, status: dict[str, object], body: object = None) -> None:
        """Send the answer to the client's response link."""
        self.link.respond(self, encode_response(self.message_id, status, body))


def encode_response(correlation_id: object, status: dict[str, object], body: object) -> bytes:
    """A response message; the correlation id keeps the AMQP type of the request's id."""
    properties = MessageProperties()
    properties.correlation_id = correlation_id
    return (
        encode_properties(properties)
        + encode_application_properties(status)
        + _VALUE_DESCRIPTOR
        + encode_value(body)
    )


class ResponseLink:
    """The link on which a client reads the answers of a node."""

    __slots__ = ("_connection", "_link", "_number", "_waiting", "node")

    def __init__(self, connection: "ClientConnection", link: Link, node: Address) -> None:
        self._connection = connection
        self._link = link
        self.node = node
        self._waiting: deque[bytes] = deque()
        self._number = 0

    @property
    def names(self) -> tuple[str | None, str]:
        """What a reply-to may call this link: its target's address, or its name."""
        target = self._link.target
        return getattr(target, "address", None), self._link.name

    def send(self, payload: bytes) -> None:
        """Send an answer as soon as the client has credit for it."""
        self._waiting.append(payload)
        self.flow()

    def flow(self) -> None:
        """The client granted credit, or reads again."""
        connection = self._connection
        while self._waiting and connection.is_writable and self._link.sendable() > 0:
            self._number += 1
            tag = self._number.to_bytes(4, "big")
            self._link.send(self._waiting.popleft(), tag, True, 0, None)
            connection.requests.answered()
        if self._link.drain and not self._waiting:
            self._link.drained()
        self._connection.has_output()

    def closed(self) -> None:
        """The client's receiving link is gone."""
        while self._waiting:
            self._waiting.popleft()
            self._connection.requests.answered()


@dataclass(eq=False, slots=True)
class RequestLink:
    """The link on which a client sends requests to a node; subclasses are the nodes."""

    connection: "ClientConnection"
    link: Link
    node: Address
    _answered: int = field(init=False, default=0)

    def open(self) -> None:
        """Grant the client its first credit."""
        self.link.set_credit(REQUEST_CREDIT)

    def transfer(self, event: TransferReceived) -> None:
        """Accept a request, then handle it."""
        self._answered += 1
        if self._answered * 2 >= REQUEST_CREDIT:
            self._answered = 0
            self.link.set_credit(REQUEST_CREDIT)
        accepted = ACCEPTED
        state = event.state
        try:
            request = Request(self, event.payload)
            if isinstance(state, TransactionalState):
                accepted = transactional_state(state.txn_id, ACCEPTED)
                request.transaction = self.connection.transactions.begin(state.txn_id)
                request.transaction.hold()
        except BusError as error:
            if isinstance(state, TransactionalState):
                self.connection.transactions.fail(state.txn_id, error)
            if not event.settled:
                self.link.settle(event.delivery_id, rejection(error))
            return
        if not event.settled:
            self.link.settle(event.delivery_id, accepted)
        self.connection.requests.take(request, len(event.payload))

    def handle(self, request: Request) -> None:
        """Handle a request; a BusError becomes its answer."""
        raise NotImplementedError

    def fail(self, request: Request, error: BusError) -> None:
        """Answer a request with an error."""
        raise NotImplementedError

    @property
    def session(self) -> object:
        """The AMQP session that it is in."""
        return self.link.session

    def respond(self, request: Request, payload: bytes) -> None:
        """Route an answer: reply-to names a link of this session, or the only one is meant."""
        link = self._response_link(request.reply_to)
        if link is not None:
            link.send(payload)
        else:
            self.connection.requests.answered()

    def _response_link(self, reply_to: str | None) -> ResponseLink | None:
        """The link for an answer: named by reply-to, else the newest of the node (3.1, 7.1)."""
        session = self.link.session
        candidates = [
            owner
            for link, owner in self.connection.links
            if isinstance(owner, ResponseLink)
            and owner.node == self.node
            and link.session is session
        ]
        for owner in candidates:
            if reply_to is not None and reply_to in owner.names:
                return owner
        return candidates[-1] if candidates else None

    def closed(self) -> None:
        """The client's sending link is gone."""


@dataclass(eq=False, slots=True)
class RequestQueue:
    """The requests of one connection: a few are handled at a time, the others wait."""

    connection: "ClientConnection"
    _open_count: int = field(init=False, default=0)
    _waiting: deque[tuple[Request, int]] = field(init=False, default_factory=deque)
    waiting_bytes: int = field(init=False, default=0)
    """The bytes of the waiting requests."""
    _is_going_on: bool = field(init=False, default=False)

    @property
    def is_behind(self) -> bool:
        """Whether too many requests wait, so that reading should pause."""
        return (
            len(self._waiting) > REQUESTS_WAITING_MAX
            or self.waiting_bytes > REQUEST_BYTES_WAITING_MAX
        )

    def take(self, request: Request, byte_count: int) -> None:
        """A request has come."""
        self._waiting.append((request, byte_count))
        self.waiting_bytes += byte_count
        self.go_on()

    def answered(self) -> None:
        """The answer to a request was written, or never will be."""
        self._open_count -= 1
        self.go_on()

    def go_on(self) -> None:
        """Handle what may be handled; immediate answers do not nest."""
        if self._is_going_on:
            return
        self._is_going_on = True
        while (
            self._waiting and self._open_count < REQUESTS_OPEN_MAX and self.connection.is_writable
        ):
            request, byte_count = self._waiting.popleft()
            self.waiting_bytes -= byte_count
            self._open_count += 1
            try:
                request.link.handle(request)
            except BusError as error:
                if request.transaction is not None:
                    request.transaction.fail(error)
                request.link.fail(request, error)
            if request.transaction is not None:
                request.transaction.let_go()
        self._is_going_on = False
