"""Protocol detection: the first bytes distinguish AMQP, TLS and HTTP.

Owns the table of openings and the protocol that waits for enough bytes to decide. It must never
consume a byte that belongs to the protocol it hands over to: everything it read is passed on. The
listener calls `sniff` on peeked bytes and attaches `FirstBytes` to every new transport.
"""

import asyncio
from enum import Enum, auto
from typing import Final, Protocol, cast

# A TLS record of type handshake begins every ClientHello (RFC 8446, 5.1).
TLS_HANDSHAKE: Final = 0x16


class Traffic(Enum):
    """The protocols that share a port."""

    UNDECIDED = auto()
    AMQP = auto()
    TLS = auto()
    HTTP = auto()
    UNKNOWN = auto()


# The engine checks the protocol id and the version after "AMQP": it answers an unknown version
# with its own [2.2].
OPENINGS: Final[tuple[tuple[bytes, Traffic], ...]] = (
    (b"AMQP", Traffic.AMQP),
    (b"GET ", Traffic.HTTP),
    (b"PUT ", Traffic.HTTP),
    (b"POST ", Traffic.HTTP),
    (b"HEAD ", Traffic.HTTP),
    (b"PATCH ", Traffic.HTTP),
    (b"TRACE ", Traffic.HTTP),
    (b"DELETE ", Traffic.HTTP),
    (b"CONNECT ", Traffic.HTTP),
    (b"OPTIONS ", Traffic.HTTP),
)


def sniff(first: bytes) -> Traffic:
    """Classify the bytes so far; UNDECIDED means that more are needed."""
    if not first:
        return Traffic.UNDECIDED
    if first[0] == TLS_HANDSHAKE:
        return Traffic.TLS
    verdict = Traffic.UNKNOWN
    for opening, traffic in OPENINGS:
        if first.startswith(opening):
            return traffic
        if opening.startswith(first):
            verdict = Traffic.UNDECIDED
    return verdict


class Reception(Protocol):
    """Receives the protocol of a new connection."""

    def given_up(self, first: "FirstBytes") -> None:
        """Its time was up before it had a transport."""
        ...

    def decided(self, first: "FirstBytes", traffic: Traffic, data: bytes) -> None:
        """The peer speaks `traffic`, and `data` is all it has sent; called once."""
        ...

    def departed(self, first: "FirstBytes") -> None:
        """The connection ended before it was handed over."""
        ...


class FirstBytes(asyncio.Protocol):
    """Holds a new connection until its protocol is known, then passes it on."""

    __slots__ = ("_heard", "_is_decided", "reception", "transport")

    def __init__(self, reception: Reception) -> None:
        self.reception = reception
        self.transport: asyncio.Transport | None = None
        self._heard = b""
        self._is_decided = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._heard += data
        if self._is_decided:
            return
        traffic = sniff(self._heard)
        if traffic is not Traffic.UNDECIDED:
            self._is_decided = True
            self.reception.decided(self, traffic, self._heard)

    def hand_over(self, protocol: asyncio.Protocol) -> None:
        """Pass the connection, with all bytes read so far, to its protocol."""
        assert self.transport is not None
        self.transport.set_protocol(protocol)
        protocol.connection_made(self.transport)
        protocol.data_received(self._heard)

    def connection_lost(self, exc: Exception | None) -> None:
        self.reception.departed(self)

    def expire(self) -> None:
        """The peer took too long to show its protocol, or must make room."""
        if self.transport is None:
            self.reception.given_up(self)
        else:
            self.transport.abort()
