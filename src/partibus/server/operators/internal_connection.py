"""An AMQP connection to this server from within: the console acts as a client.

Owns the pipe between the client's connection and the gateway's. A user of the console acts with
their own token over such a connection, so that rights, limits and the rules of messages are those
of every client, checked in the same place; nothing is decided here. Used by the service of
messages.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from partibus.client.bus import Bus
from partibus.client.connection import BusClient
from partibus.client.connection_string import ConnectionString
from partibus.control.access.access import BEARER
from partibus.gateway.connection import ClientConnection
from partibus.gateway.gateway import Gateway

CONTAINER = "partibus-console"
"""The name of such a connection among the others."""


class _Pipe(asyncio.Transport):
    """The client's transport and the gateway's wire, in one."""

    def __init__(self, client: BusClient) -> None:
        super().__init__()
        self.peer = "console"
        self.is_websocket = False
        self.secure = True
        self._client = client
        self._loop = asyncio.get_running_loop()
        self._to_server: deque[bytes] = deque()
        self._is_paused = False
        self._is_over = False
        self.server: ClientConnection | None = None

    # --- the client's side --------------------------------------------------------------------

    def client_write(self, data: bytes) -> None:
        """The client has bytes for the server."""
        self._to_server.append(bytes(data))
        self._loop.call_soon(self._feed)

    def _feed(self) -> None:
        while self._to_server and not self._is_paused and not self._is_over:
            assert self.server is not None
            self.server.data_received(self._to_server.popleft())

    def client_close(self) -> None:
        """The client has gone."""
        if not self._is_over:
            self._is_over = True
            assert self.server is not None
            self.server.connection_lost()

    # --- the server's side: a wire --------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._loop.call_soon(self._deliver, bytes(data))

    def _deliver(self, data: bytes) -> None:
        if not self._is_over:
            self._client.data_received(data)

    def close(self) -> None:
        self._loop.call_soon(self._end)

    def linger(self) -> None:
        self.close()

    def abort(self) -> None:
        self.close()

    def _end(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._client.connection_lost(None)

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        self._is_paused = False
        self._loop.call_soon(self._feed)


class _ClientEnd(asyncio.Transport):
    """What the client writes to."""

    def __init__(self, pipe: _Pipe) -> None:
        super().__init__()
        self._pipe = pipe

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._pipe.client_write(bytes(data))

    def close(self) -> None:
        self._pipe.client_close()


@asynccontextmanager
async def internal_bus(gateway: Gateway, token: str) -> AsyncIterator[Bus]:
    """A bus for the holder of a token; RemoteError reports what the gateway refuses."""
    place = ConnectionString(host="localhost", token=token.removeprefix(BEARER))
    async with BusClient.over(_plug(gateway), CONTAINER) as client, Bus.over(client, place) as bus:
        yield bus


def _plug(gateway: Gateway) -> Callable[[BusClient], None]:
    def plug(client: BusClient) -> None:
        pipe = _Pipe(client)
        pipe.server = gateway.connect(pipe)
        client.connection_made(_ClientEnd(pipe))

    return plug
