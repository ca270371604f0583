"""AMQP in the binary messages of a WebSocket: the TCP pump with frames around the bytes.

Owns the framing and the closing handshake of one connection. Message boundaries mean nothing: AMQP
is a stream of bytes here as everywhere, so a message is passed on piece by piece as it arrives and
is never buffered as a whole. Made by the listener after the opening handshake (`upgrade`); the
gateway sees the same wire as for TCP.
"""

from collections.abc import Callable
from typing import Final

from wsproto.connection import Connection, ConnectionState, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Ping, TextMessage
from wsproto.frame_protocol import CloseReason

from partibus.listener.deadlines import Deadlines
from partibus.listener.tcp import AmqpProtocol, Client

# Messages that we send. Some WebSocket libraries refuse larger ones unless configured otherwise:
# Go's coder/websocket above 32 KiB, Java's Proton transport above 64 KiB, Python's aiohttp
# above 4 MiB.
SENT_MESSAGE_BYTES_MAX: Final = 32 * 1024
# Incoming messages: the largest AMQP message of any profile (100 MiB) in one write, with its
# frame headers. No AMQP client sends more.
TAKEN_MESSAGE_BYTES_MAX: Final = 128 * 1024 * 1024
# Pings and empty pieces in a row. Heartbeats come every few seconds and between data; a peer that
# sends nothing else wastes our time.
FRAMES_WITHOUT_DATA_MAX: Final = 1_000


class WebSocketProtocol(AmqpProtocol):
    """One client behind a WebSocket."""

    __slots__ = ("_frames", "_frames_without_data", "_is_paused", "_message_bytes")

    def __init__(
        self,
        connect: Callable[[AmqpProtocol], Client],
        closing: Deadlines,
        lost: Callable[[AmqpProtocol], None],
    ) -> None:
        super().__init__(connect, closing, lost)
        self._frames = Connection(ConnectionType.SERVER)
        self._frames_without_data = 0
        self._message_bytes = 0
        self._is_paused = False
        self.is_websocket = True

    # --- called by the loop ---------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        frames = self._frames
        if frames.state is ConnectionState.CLOSED:
            return
        frames.receive_data(data)
        parts: list[bytes] = []
        ping: Ping | None = None
        for event in frames.events():
            if isinstance(event, BytesMessage):
                self._take(event, parts)
            elif isinstance(event, CloseConnection):
                self._pass_on(parts)
                self._finish_closing(event)
                return
            elif isinstance(event, TextMessage):
                self._fail(CloseReason.UNSUPPORTED_DATA, "Send AMQP in binary messages.")
            else:
                self._frames_without_data += 1
                ping = event if isinstance(event, Ping) else ping
            if self._was_sent_away():
                return
        self._pass_on(parts)
        if ping is not None:
            self._answer(ping)

    def pause_writing(self) -> None:
        self._is_paused = True
        super().pause_writing()

    def resume_writing(self) -> None:
        self._is_paused = False
        super().resume_writing()

    # --- called by the gateway (its `Wire`) -----------------------------------------------

    def write(self, data: bytes) -> None:
        """Send in messages of a size that every client accepts."""
        frames = self._frames
        if frames.state is not ConnectionState.OPEN:
            return
        if len(data) <= SENT_MESSAGE_BYTES_MAX:
            super().write(frames.send(BytesMessage(data=data)))
            return
        cuts = range(0, len(data), SENT_MESSAGE_BYTES_MAX)
        pieces = [data[at : at + SENT_MESSAGE_BYTES_MAX] for at in cuts]
        super().write(b"".join([frames.send(BytesMessage(data=piece)) for piece in pieces]))

    def close(self) -> None:
        """Send a close frame after the data; a peer that does not answer is cut off in time."""
        if self._frames.state is ConnectionState.OPEN:
            self._closing.watch(self)
            self._say_goodbye(CloseReason.NORMAL_CLOSURE, "")

    def linger(self) -> None:
        """Send a close frame after the data; what comes before the answer is not passed on."""
        self.close()

    # --- called by the listener -------------------------------------------------------------

    def finish(self) -> None:
        """The server stops: wait for the answer to our close frame only while the peer is
        sending."""
        super().linger()

    # --- frames -----------------------------------------------------------------------------

    def _take(self, event: BytesMessage, parts: list[bytes]) -> None:
        data = bytes(event.data)
        if not data:
            self._frames_without_data += 1
        elif self._frames.state is ConnectionState.OPEN:
            self._frames_without_data = 0
            self._message_bytes += len(data)
            parts.append(data)
        if self._message_bytes > TAKEN_MESSAGE_BYTES_MAX:
            self._fail(CloseReason.MESSAGE_TOO_BIG, "Send AMQP frames in separate messages.")
        elif event.message_finished:
            self._message_bytes = 0

    def _pass_on(self, parts: list[bytes]) -> None:
        """Pass everything from one read to the gateway at once, as with TCP."""
        if parts:
            super().data_received(parts[0] if len(parts) == 1 else b"".join(parts))

    def _answer(self, ping: Ping) -> None:
        """Answer only the latest ping (RFC 6455, 5.5.3), and none that would pile up."""
        if self._frames.state is ConnectionState.OPEN and not self._is_paused:
            super().write(self._frames.send(ping.response()))

    def _was_sent_away(self) -> bool:
        """Whether the peer exceeded a limit, now or before."""
        if self._frames_without_data > FRAMES_WITHOUT_DATA_MAX:
            self._fail(CloseReason.POLICY_VIOLATION, "Too many frames without data.")
        return self._transport is None or self._transport.is_closing()

    def _finish_closing(self, event: CloseConnection) -> None:
        """The peer sent a close frame, answered ours, or violated the protocol."""
        if self._frames.state is ConnectionState.REMOTE_CLOSING:
            super().write(self._frames.send(event.response()))
            super().close()
        elif self._frames.state is ConnectionState.OPEN:
            self._fail(CloseReason(event.code), event.reason or "")
        else:
            super().close()

    def _fail(self, code: CloseReason, reason: str) -> None:
        if self._frames.state is ConnectionState.OPEN:
            self._say_goodbye(code, reason)
        super().close()

    def _say_goodbye(self, code: CloseReason, reason: str) -> None:
        goodbye = CloseConnection(code=code, reason=reason or None)
        super().write(self._frames.send(goodbye))
