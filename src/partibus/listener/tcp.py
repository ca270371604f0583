"""AMQP over a byte stream: one `asyncio.Protocol` pumping one client connection.

Owns the watermarks of both directions and how a connection ends. It must never look at a byte: what
arrives goes to the gateway in the chunks the loop read, what the gateway writes goes to the
transport. Made by the listener when the first bytes are AMQP; plain TCP and TLS look the same from
here, and a WebSocket is this with frames (`websocket`).
"""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol, cast

from partibus.listener.deadlines import Deadlines

# What may be unsent for one peer before the gateway is asked to stop writing: several frames of
# the largest size (256 KiB) would stall a link, a hundredth of it would make small messages cost
# a wake-up each. 5,000 peers that never read use 1.25 GiB at most.
WRITE_BUFFER_BYTES_HIGH: Final = 256 * 1024
WRITE_BUFFER_BYTES_LOW: Final = 64 * 1024
# A peer that is disconnected while it sends has read our last bytes, or is gone, when it has been
# silent for this long: several round trips of a slow network.
LINGER_QUIET_S: Final = 0.25


class Client(Protocol):
    """The gateway's side of one connection."""

    def data_received(self, data: bytes) -> None: ...

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...

    def connection_lost(self) -> None: ...


class AmqpProtocol(asyncio.Protocol):
    """Both ends of the pump: a protocol for the loop, a wire for the gateway."""

    __slots__ = (
        "_client",
        "_closing",
        "_connect",
        "_is_lingering",
        "_lost",
        "_transport",
        "_was_heard",
        "is_websocket",
        "peer",
        "secure",
    )

    def __init__(
        self,
        connect: Callable[["AmqpProtocol"], Client],
        closing: Deadlines,
        lost: Callable[["AmqpProtocol"], None],
    ) -> None:
        self._connect = connect
        self._closing = closing
        self._lost = lost
        self._client: Client | None = None
        self._transport: asyncio.Transport | None = None
        self._is_lingering = False
        self._was_heard = False
        self.peer = ""
        self.secure = False
        self.is_websocket = False

    # --- called by the loop ---------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(WRITE_BUFFER_BYTES_HIGH, WRITE_BUFFER_BYTES_LOW)
        self.peer = peer_name(self._transport)
        self.secure = self._transport.get_extra_info("sslcontext") is not None
        self._client = self._connect(self)

    def data_received(self, data: bytes) -> None:
        if self._is_lingering:
            self._was_heard = True
            return
        client = self._client
        if client is not None:
            client.data_received(data)

    def pause_writing(self) -> None:
        if self._client is not None:
            self._client.pause_writing()

    def resume_writing(self) -> None:
        if self._client is not None:
            self._client.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        # Many clients end with a reset, so `exc` is not worth reporting.
        self._closing.forget(self)
        self._lost(self)
        client, self._client = self._client, None
        if client is not None:
            client.connection_lost()

    # --- called by the gateway (its `Wire`) -----------------------------------------------

    def write(self, data: bytes) -> None:
        """Send, or drop when the connection is closing: its peer will read no more."""
        transport = self._transport
        if transport is not None and not transport.is_closing():
            transport.write(data)

    def close(self) -> None:
        """Close after everything written is sent; a peer that does not read is cut off in time."""
        assert self._transport is not None
        if not self._transport.is_closing():
            self._closing.watch(self)
            self._transport.close()

    def linger(self) -> None:
        """Close after everything written is sent, even while the peer is still sending.

        Closing a socket with unread data resets the connection, and the peer loses what it has not
        read yet: the answers to its last sends. So incoming data is read and discarded until the
        peer has gone or is silent.
        """
        transport = self._transport
        assert transport is not None
        if self._is_lingering or transport.is_closing():
            return
        self._is_lingering = True
        self._closing.watch(self)
        if transport.can_write_eof():
            transport.write_eof()
        transport.resume_reading()
        self._listen_on()

    def _listen_on(self) -> None:
        self._was_heard = False
        asyncio.get_running_loop().call_later(LINGER_QUIET_S, self._end_if_silent)

    def _end_if_silent(self) -> None:
        transport = self._transport
        if transport is not None and not transport.is_closing():
            if self._was_heard:
                self._listen_on()
            else:
                transport.close()

    def abort(self) -> None:
        """Close at once, dropping what was not sent."""
        assert self._transport is not None
        self._transport.abort()

    def pause_reading(self) -> None:
        """Stop reading from the peer; the kernel's buffers fill up and then the peer waits."""
        assert self._transport is not None
        if not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        assert self._transport is not None
        if not self._transport.is_closing():
            self._transport.resume_reading()

    def finish(self) -> None:
        """The server stops, and the gateway has closed: do not wait for the peer."""

    # --- called by the deadlines ----------------------------------------------------------

    def expire(self) -> None:
        """The peer did not read the last bytes in time."""
        self.abort()


def peer_name(transport: asyncio.Transport) -> str:
    """The peer as HOST:PORT, for logs and diagnostics."""
    address = transport.get_extra_info("peername")
    if not isinstance(address, tuple):
        return "unknown"
    host, port = address[0], address[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
