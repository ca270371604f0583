"""The front of a node: every socket arrives here and is passed to the protocol it speaks.

Owns the ports, the admission of sockets and the dispatch of a raw socket, by its first bytes, to
AMQP or HTTP. It must never make a task, a timer or a transport for a peer that has sent nothing:
that is one descriptor and one small entry. Started and stopped by the server; it passes AMQP
connections to the gateway through `connect`.
"""

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from partibus.domain.clock import Clock
from partibus.domain.errors import ServerBusy
from partibus.domain.observing.notices import refused
from partibus.listener.accept import AcceptLoop
from partibus.listener.deadlines import Deadlines
from partibus.listener.handshakes import Handshakes
from partibus.listener.sniff import FirstBytes, Traffic, sniff
from partibus.listener.tcp import AmqpProtocol, Client

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from partibus.listener.http import HttpFront
    from partibus.listener.upgrade import Answer

# How long a peer may take to show its protocol, at each of: first byte, whole opening, HTTP
# request head. Slow links need a second or two; port scanners never send a byte.
HANDSHAKE_MS: Final = 30_000
# Two round trips and one signature; a peer that needs more is not trying.
TLS_HANDSHAKE_S: Final = 10.0
TLS_SHUTDOWN_S: Final = 5.0
# How long the last bytes of a closing connection may wait for the peer to read them.
CLOSING_MS: Final = 10_000
# How long peers have to read the close frame when the node stops.
STOP_GRACE_S: Final = 5.0
# Sockets beyond the AMQP connections: health checks and new arrivals must be admitted even when
# every AMQP connection that the profile allows is in use.
HEADROOM_SOCKETS: Final = 256
# Enough of a peek to refuse garbage at once; the longest opening has 8 bytes.
PEEK_BYTES: Final = 8

log = logging.getLogger(__name__)


@dataclass(slots=True, frozen=True, kw_only=True)
class ListenerLimits:
    """Limits of the listener."""

    connections_max: int  # AMQP connections
    sockets_max: int  # all sockets, including silent ones
    handshake_ms: int = HANDSHAKE_MS
    closing_ms: int = CLOSING_MS


class Listener:
    """Ports, and all connections that came in through them."""

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        limits: ListenerLimits,
        connect: Callable[[AmqpProtocol], Client],
        tls_context: Callable[[], ssl.SSLContext],
        http_application: Callable[[], "ASGIApp"],
    ) -> None:
        self._loop = loop
        self._limits = limits
        self._connect = connect
        self._tls_context = tls_context
        self._http_application = http_application
        self._accept_loops: list[AcceptLoop] = []
        # Each open connection is in exactly one of these four.
        self.silent = Deadlines(loop, clock, limits.handshake_ms)
        self._amqp: set[AmqpProtocol] = set()
        self._http: HttpFront | None = None
        self._http_waiting: dict[FirstBytes, None] = {}
        # These hold or watch connections that are counted above.
        self._starting: dict[FirstBytes, asyncio.Task[None]] = {}
        self._handshakes = Handshakes(clock, self._begin_tls, loop.call_soon)
        self.closing = Deadlines(loop, clock, limits.closing_ms)
        self.asking = Deadlines(loop, clock, limits.handshake_ms)
        self._http_loading: asyncio.Future[None] | None = None
        self._all_lost: asyncio.Event = asyncio.Event()

    # --- ports ----------------------------------------------------------------------------

    def accept_from(self, sock: socket.socket) -> None:
        """Accept connections on this listening socket, and own it from now on."""
        self._accept_loops.append(AcceptLoop(self._loop, sock, self._admit))

    def close_ports(self) -> None:
        """Admit no more connections; silent ones are closed."""
        for accept_loop in self._accept_loops:
            accept_loop.close()
        self._accept_loops.clear()
        self.silent.close()
        for first in list(self._http_waiting):
            first.expire()

    async def drain(self, grace_s: float = STOP_GRACE_S) -> None:
        """Wait until the connections have ended, and cut off those that do not end in time."""
        if self._http_loading is not None:
            await asyncio.wait([self._http_loading])
        if self._starting:
            await asyncio.wait(list(self._starting.values()))
        if self._http is not None:
            await self._http.close(grace_s)
        for protocol in list(self._amqp):
            protocol.finish()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._until_all_lost(), grace_s)
        for protocol in list(self._amqp):
            protocol.abort()
        await self._until_all_lost()
        self.closing.close()
        self.asking.close()

    @property
    def connection_count(self) -> int:
        """How many AMQP connections are open."""
        return len(self._amqp)

    @property
    def socket_count(self) -> int:
        """How many accepted sockets are open, whatever their protocol."""
        http_count = 0 if self._http is None else self._http.connection_count
        return len(self.silent) + len(self._http_waiting) + len(self._amqp) + http_count

    # --- a new socket -----------------------------------------------------------------------

    def _admit(self, sock: socket.socket) -> None:
        """Admit a socket; when full, the one that has been silent longest is closed for it."""
        if self.socket_count >= self._limits.sockets_max and not self.silent.expire_oldest():
            sock.close()
            self._refused("sockets", self._limits.sockets_max)
            return
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        silent = SilentSocket(self._loop, sock, self)
        self.silent.watch(silent)

    def _refused(self, what: str, most: int) -> None:
        """Log one line each, within the limit for refusals."""
        refused("connection refused", ServerBusy(f"All {most} {what} are in use."))

    def spoke(self, silent: "SilentSocket", first: bytes) -> None:
        """A silent socket became readable; these are its first bytes."""
        self.silent.forget(silent)
        traffic = sniff(first)
        if not first or traffic is Traffic.UNKNOWN:
            silent.sock.close()
            return
        opening = FirstBytes(self)
        self.silent.watch(opening)
        if traffic is Traffic.TLS:
            self._handshakes.ask(opening, silent.sock)
        else:
            self._begin(opening, silent.sock, None)

    def _begin_tls(self, first: FirstBytes, sock: socket.socket) -> None:
        self._begin(first, sock, self._tls_context())

    def _begin(
        self, first: FirstBytes, sock: socket.socket, context: ssl.SSLContext | None
    ) -> None:
        task = self._loop.create_task(self._start(first, sock, context))
        self._starting[first] = task
        task.add_done_callback(lambda _: self._started(first, sock))

    async def _start(
        self, first: FirstBytes, sock: socket.socket, context: ssl.SSLContext | None
    ) -> None:
        """Put a transport around the socket; with TLS, do the handshake first."""
        try:
            await self._loop.connect_accepted_socket(
                lambda: first,
                sock,
                ssl=context,
                ssl_handshake_timeout=None if context is None else TLS_HANDSHAKE_S,
                ssl_shutdown_timeout=None if context is None else TLS_SHUTDOWN_S,
            )
        except OSError as error:
            # The peer does not trust our certificate, or left: not our error.
            log.debug("connection did not start: %s", error)

    def _started(self, first: FirstBytes, sock: socket.socket) -> None:
        """Also called when the start failed or was cancelled before its first step."""
        self._starting.pop(first, None)
        self._handshakes.end(first)
        if first.transport is None:
            self.silent.forget(first)
            sock.close()

    # --- its first bytes (the `Reception` of `FirstBytes`) ----------------------------------

    def given_up(self, first: FirstBytes) -> None:
        waiting = self._handshakes.withdraw(first)
        if waiting is not None:
            waiting.close()
        else:
            self._starting[first].cancel()

    def decided(self, first: FirstBytes, traffic: Traffic, data: bytes) -> None:
        self.silent.forget(first)
        if traffic is Traffic.AMQP:
            self._lead_to_amqp(first)
        elif traffic is Traffic.HTTP:
            self._lead_to_http(first)
        else:
            first.expire()

    def departed(self, first: FirstBytes) -> None:
        self.silent.forget(first)
        self._http_waiting.pop(first, None)

    # --- AMQP -------------------------------------------------------------------------------

    def _lead_to_amqp(self, first: FirstBytes) -> None:
        if not self._has_room():
            first.expire()
            return
        protocol = AmqpProtocol(self._connect, self.closing, self._lost)
        self._amqp.add(protocol)
        first.hand_over(protocol)

    def _has_room(self) -> bool:
        """Whether the profile allows one more AMQP connection."""
        if len(self._amqp) >= self._limits.connections_max:
            self._refused("connections of the profile", self._limits.connections_max)
            return False
        return True

    def _upgrade(self, transport: asyncio.Transport, answer: "Answer", behind: bytes) -> None:
        """An HTTP connection asked for AMQP over WebSocket; `behind` came after its request."""
        # Loaded with the HTTP stack that calls this, not at start.
        from partibus.listener.upgrade import refusal
        from partibus.listener.websocket import WebSocketProtocol

        if answer.is_accepted and not self._has_room():
            answer = refusal(503, "Too many connections are open; try again later.")
        transport.write(answer.data)
        if not answer.is_accepted:
            transport.close()
            return
        protocol = WebSocketProtocol(self._connect, self.closing, self._lost)
        self._amqp.add(protocol)
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        if behind:
            protocol.data_received(behind)

    def _lost(self, protocol: AmqpProtocol) -> None:
        self._amqp.discard(protocol)
        if not self._amqp:
            self._all_lost.set()

    async def _until_all_lost(self) -> None:
        while self._amqp:
            self._all_lost.clear()
            await self._all_lost.wait()

    # --- HTTP -------------------------------------------------------------------------------

    def _lead_to_http(self, first: FirstBytes) -> None:
        if self._http is not None:
            first.hand_over(self._http.connection())
            return
        assert first.transport is not None
        first.transport.pause_reading()
        self._http_waiting[first] = None
        if self._http_loading is None:
            self._http_loading = self._loop.run_in_executor(None, self._load_http)
            self._http_loading.add_done_callback(self._http_loaded)

    def _load_http(self) -> None:
        """In a thread: importing the HTTP stack would block the loop."""
        from partibus.listener.http import HttpFront

        application = self._http_application()
        self._http = HttpFront(self._loop, application, self.asking, self._upgrade)

    def _http_loaded(self, loading: "asyncio.Future[None]") -> None:
        error = loading.exception()
        if error is not None:
            self._http_loading = None
            log.error("HTTP cannot be served, trying again with the next request: %s", error)
        waiting, self._http_waiting = self._http_waiting, {}
        for first in waiting:
            assert first.transport is not None
            if self._http is None or first.transport.is_closing():
                first.expire()
            else:
                first.hand_over(self._http.connection())
                first.transport.resume_reading()


@dataclass(eq=False, slots=True)
class SilentSocket:
    """An accepted socket that has sent nothing: a descriptor and a reader, no more."""

    loop: asyncio.AbstractEventLoop
    sock: socket.socket
    listener: Listener

    def __post_init__(self) -> None:
        self.loop.add_reader(self.sock.fileno(), self._on_readable)

    def expire(self) -> None:
        """It was silent for too long, or must make room."""
        self.loop.remove_reader(self.sock.fileno())
        self.sock.close()

    def _on_readable(self) -> None:
        try:
            first = self.sock.recv(PEEK_BYTES, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            first = b""
        self.loop.remove_reader(self.sock.fileno())
        self.listener.spoke(self, first)
