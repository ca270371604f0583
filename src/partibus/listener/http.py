"""HTTP on a sniffed connection: uvicorn's protocol around the node's application.

Owns the HTTP connections and their time limits. It serves whatever application it is given and must
never know a route. Importing this module costs a tenth of a second (uvicorn, h11), so the listener
does it in a thread when the first HTTP request arrives, not at start. A request for AMQP over
WebSocket leaves uvicorn here, with its connection: AMQP needs the pump of `tcp`, not an application
that is awaited for each message.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from typing import Final

import h11
from starlette.types import ASGIApp
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from partibus.domain.observing.cost import OBSERVING, is_observer
from partibus.listener.deadlines import Deadlines
from partibus.listener.upgrade import WEBSOCKET_PATHS, Answer, answer

# Health checkers and admin clients send a request every few seconds to half a minute.
KEEP_ALIVE_S: Final = 30
# One request line with its headers; SAS tokens in a header stay well under 4 KiB.
REQUEST_HEAD_BYTES_MAX: Final = 32 * 1024

# Takes a connection whose head asks for a WebSocket, our answer, and the bytes after it.
Upgrade = Callable[[asyncio.Transport, Answer, bytes], None]


class HttpFront:
    """All HTTP connections of a node, served by one application."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        application: ASGIApp,
        asking: Deadlines,
        upgrade: Upgrade,
    ) -> None:
        # Invalid requests of strangers are answered with 400, not logged.
        logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
        self._loop = loop
        self._state = ServerState()
        self._config = Config(
            application,
            loop="none",
            http="h11",
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            h11_max_incomplete_event_size=REQUEST_HEAD_BYTES_MAX,
        )
        self._config.load()
        self._asking = asking
        self._upgrade = upgrade

    @property
    def connection_count(self) -> int:
        """How many HTTP connections are open."""
        return len(self._state.connections)

    def connection(self) -> asyncio.Protocol:
        """A protocol for one connection that turned out to speak HTTP."""
        return HttpConnection(self._loop, self._config, self._state, self._asking, self._upgrade)

    async def close(self, grace_s: float) -> None:
        """Let running requests end within `grace_s`, then close every connection."""
        for connection in list(self._state.connections):
            connection.shutdown()
        tasks = list(self._state.tasks)
        if tasks:
            await asyncio.wait(tasks, timeout=grace_s)
        for task in list(self._state.tasks):
            task.cancel()
        for connection in list(self._state.connections):
            if connection.transport is not None:
                # Early releases of Python 3.11 raise this for TLS that uvicorn has closed twice.
                with contextlib.suppress(AttributeError):
                    connection.transport.abort()


class _AttentiveConnection(h11.Connection):
    """Remembers header names in their original case: over REST they are names of properties."""

    headers_as_sent: list[tuple[bytes, bytes]]

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        event = super().next_event()
        if isinstance(event, h11.Request):
            self.headers_as_sent = event.headers.raw_items()
            _refuse_dubious(event)
            return _in_origin_form(event)
        return event


def _in_origin_form(request: h11.Request) -> h11.Request:
    """Converts an absolute target, as Java's WebSocket client sends it, to a path (RFC 9112,
    3.2.2)."""
    scheme, mark, rest = request.target.partition(b"://")
    if not mark or scheme.lower() not in (b"http", b"https"):
        return request
    _authority, slash, path = rest.partition(b"/")
    return h11.Request(
        method=request.method,
        headers=request.headers,
        target=slash + path or b"/",
        http_version=request.http_version,
    )


def _refuse_dubious(request: h11.Request) -> None:
    """What h11 accepts and we do not; uvicorn answers with 400 and closes the connection."""
    names = [name for name, _value in request.headers]
    if b"content-length" in names and b"transfer-encoding" in names:
        # Two lengths: a proxy in front may have used the other one (RFC 9112, 6.1).
        raise h11.RemoteProtocolError("Content-Length and Transfer-Encoding exclude each other")
    # h11 checks the limit only while a head is incomplete, not for one that came in a single
    # read. ": " and the end of the line are four bytes, as are those of the request line.
    size = len(request.method) + len(request.target)
    size += sum([len(name) + len(value) + 4 for name, value in request.headers])
    if size > REQUEST_HEAD_BYTES_MAX:
        raise h11.RemoteProtocolError("the request line and the headers are too large")


class HttpConnection(H11Protocol):
    """uvicorn's connection, with a time limit for requests, which uvicorn lacks."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        config: Config,
        state: ServerState,
        asking: Deadlines,
        upgrade: Upgrade,
    ) -> None:
        super().__init__(config, state, {}, loop)
        self.conn = self._attentive = _AttentiveConnection(h11.SERVER, REQUEST_HEAD_BYTES_MAX)
        self._asking = asking
        self._upgrade = upgrade
        self._is_upgraded = False

    def data_received(self, data: bytes) -> None:
        begun_s = time.thread_time()
        super().data_received(data)
        scope = self.scope
        if scope is not None and is_observer(scope["method"], scope["path"]):
            OBSERVING.add(time.thread_time() - begun_s)
        is_asking = self.cycle is None or self.cycle.response_complete
        if not is_asking or self._is_upgraded or self.transport.is_closing():
            self._asking.forget(self)
        elif self not in self._asking:
            # The time runs from the first byte of a request; more bytes do not renew it.
            self._asking.watch(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._asking.forget(self)
        super().connection_lost(exc)

    def expire(self) -> None:
        """The request head did not arrive in time."""
        self.transport.abort()

    def _should_upgrade(self) -> bool:
        """AMQP is the only upgrade; any other request is left to the application."""
        # Called once for each request, when its scope is made: the moment to add what
        # applications need and ASGI does not provide.
        self.scope["state"]["headers_as_sent"] = self._attentive.headers_as_sent
        return self.scope["path"] in WEBSOCKET_PATHS and self._get_upgrade() == b"websocket"

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Give up the connection: from here on it is a WebSocket, or refused and closed."""
        self._is_upgraded = True
        self.connections.discard(self)
        behind, _is_ended = self.conn.trailing_data
        judged = answer(event.method, event.http_version, self.headers)
        self._upgrade(self.transport, judged, behind)
