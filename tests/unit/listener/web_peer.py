"""The far end of a WebSocket in tests: frames that are right, and frames that are not.

Owns a connection and its framing as a client has it. The head of the request and raw bytes
are the test's to choose, so that every sort of hostile peer can be played.
"""

import asyncio
import struct
from collections.abc import Awaitable, Callable

from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Event

from unit.listener.front import Front, RecordingClient, Streams

PATH = "/$servicebus/websocket"
OPENING = (
    "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    "Sec-WebSocket-Protocol: {protocol}\r\n\r\n"
)


def opening(path: str = PATH, protocol: str = "AMQPWSB10") -> bytes:
    return OPENING.format(path=path, protocol=protocol).encode()


def masked(first: int, payload: bytes = b"", *, length: int | None = None) -> bytes:
    """A frame as a client sends it, with a mask of zeros; `length` may lie."""
    size = len(payload) if length is None else length
    if size < 126:
        head = struct.pack("!BB", first, 0x80 | size)
    elif size < 1 << 16:
        head = struct.pack("!BBH", first, 0x80 | 126, size)
    else:
        head = struct.pack("!BBQ", first, 0x80 | 127, size)
    return head + bytes(4) + payload


class WebPeer:
    """A client's end."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.client: RecordingClient
        self._frames = Connection(ConnectionType.CLIENT)
        self._events: list[Event] = []

    @classmethod
    async def connect(cls, front: Front, streams: Streams) -> "WebPeer":
        peer = cls(*streams)
        peer.writer.write(opening())
        head = await peer.reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101 "), head
        peer.client = await front.clients.get()
        peer.client.is_echoing = False
        return peer

    def send(self, event: Event) -> None:
        self.writer.write(self._frames.send(event))

    def raw(self, data: bytes) -> None:
        self.writer.write(data)

    async def event(self) -> Event:
        """The next event from the server."""
        while not self._events:
            data = await self.reader.read(1 << 16)
            assert data, "the server ended the connection without a word"
            self._frames.receive_data(data)
            self._events = list(self._frames.events())
        return self._events.pop(0)

    async def message(self) -> bytes:
        """The next whole message from the server."""
        parts = []
        while True:
            event = await self.event()
            assert isinstance(event, BytesMessage), event
            parts.append(bytes(event.data))
            if event.message_finished:
                return b"".join(parts)

    async def goodbye(self) -> tuple[int, str | None]:
        """The code and words of the server's close, behind which the connection ends."""
        event = await self.event()
        assert isinstance(event, CloseConnection), event
        assert not self._events
        return event.code, event.reason

    async def is_ended(self) -> bool:
        try:
            return await self.reader.read() == b""
        except ConnectionError:
            return True


Web = Callable[..., Awaitable[WebPeer]]
