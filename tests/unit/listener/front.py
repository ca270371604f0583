"""A listener on a loopback port, with a manual clock and a gateway that records.

Nothing here sleeps: tests wait for what the recording gateway was told, let the loop turn
until a condition holds, or advance the clock and sweep.
"""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable

from partibus.listener.accept import bind
from partibus.listener.listener import Listener, ListenerLimits
from partibus.listener.tcp import AmqpProtocol
from partibus.listener.tls import DevelopmentAuthority
from partibus.ops.health import operations_application
from partibus.ops.health_report import HealthReport, StoreHealth

HOST = "127.0.0.1"

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Dial = Callable[..., Awaitable[Streams]]


class ManualClock:
    def __init__(self) -> None:
        self.time_ms = 1_000_000
        self.stepped_ms = 0

    def now_ms(self) -> int:
        return self.time_ms + self.stepped_ms

    def monotonic_ms(self) -> int:
        return self.time_ms

    def follow(self) -> int:
        return 0

    def step(self, by_ms: int) -> None:
        self.stepped_ms += by_ms

    def advance(self, by_ms: int) -> None:
        self.time_ms += by_ms


class RecordingClient:
    """What the gateway would be: records, and echoes until told to stop."""

    def __init__(self, wire: AmqpProtocol) -> None:
        self.wire = wire
        self.received = bytearray()
        self.is_echoing = True
        self.pauses = 0
        self.resumes = 0
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.paused: asyncio.Event = asyncio.Event()
        self.resumed: asyncio.Event = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        self.received += data
        if self.is_echoing:
            self.wire.write(data)

    def pause_writing(self) -> None:
        self.pauses += 1
        self.paused.set()

    def resume_writing(self) -> None:
        self.resumes += 1
        self.resumed.set()

    def connection_lost(self) -> None:
        self.lost.set_result(None)


class Front:
    """A listener with one port, and everybody who came in through it."""

    def __init__(self, authority: DevelopmentAuthority) -> None:
        self.clock = ManualClock()
        self.clients: asyncio.Queue[RecordingClient] = asyncio.Queue()
        self.store_state = "up"
        self.authority = authority
        self.port = 0
        self.listener = self.listen(connections_max=100, sockets_max=200)

    def listen(self, *, connections_max: int, sockets_max: int) -> Listener:
        """Start again with other limits."""
        if self.port:
            self.listener.close_ports()
        limits = ListenerLimits(connections_max=connections_max, sockets_max=sockets_max)
        self.listener = Listener(
            loop=asyncio.get_running_loop(),
            clock=self.clock,
            limits=limits,
            connect=self._connect,
            tls_context=self.authority.context,
            http_application=lambda: operations_application(self),
        )
        (sock,) = bind(HOST, 0, "--port")
        self.port = sock.getsockname()[1]
        self.listener.accept_from(sock)
        return self.listener

    def _connect(self, wire: AmqpProtocol) -> RecordingClient:
        client = RecordingClient(wire)
        self.clients.put_nowait(client)
        return client

    def is_supervised(self) -> bool:
        return True

    async def alive(self) -> dict[int, bool]:
        return {0: True}

    async def report(self) -> HealthReport:
        return HealthReport(workers={0: True}, stores={0: StoreHealth(state=self.store_state)})

    async def dial(self, context: ssl.SSLContext | None = None) -> Streams:
        name = None if context is None else "localhost"
        return await asyncio.open_connection(HOST, self.port, ssl=context, server_hostname=name)

    def trusting(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.authority.ca_path))

    async def until(self, holds: Callable[[], bool]) -> None:
        """Let the loop turn until something that needs no time, only turns, has happened."""
        async with asyncio.timeout(30):
            while not holds():
                await asyncio.to_thread(int)


def reset_on_close(sock: socket.socket) -> None:
    """Make closing this socket send a reset instead of a farewell."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")


async def is_ended(reader: asyncio.StreamReader) -> bool:
    """The server ends the connection without a word, by a farewell or by a reset."""
    try:
        return await reader.read() == b""
    except ConnectionError:
        return True
