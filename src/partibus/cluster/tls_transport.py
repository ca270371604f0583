"""Connections between the nodes of a cluster: TCP with TLS 1.3, both ends verified.

Owns the port on which the other nodes reach a node, and the handshakes of both ends. A certificate
that the cluster's own authority did not sign, or that has expired, is refused before a row is read,
with one line in the log. The certificate names the node; `cluster.peers` checks whether that node
belongs to the cluster. Makes no certificates; `partibus cluster init` does.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from partibus.cluster.channel import PeerChannel
from partibus.cluster.peer_certificates import PeerCertificates
from partibus.cluster.transport import PeerListener
from partibus.domain.errors import ConfigError

HANDSHAKE_S: Final = 5.0
HANDSHAKES_MAX: Final = 64
"""Connections in their handshake; further ones wait in the socket's queue."""
BACKLOG: Final = 128
REFUSALS_MAX: Final = 256
CONNECT_S: Final = 5.0
ACCEPT_RETRY_S: Final = 0.1
SILENCE_S: Final = 6
"""After about this long the kernel notices, at both ends, that a machine is cut off."""

log = logging.getLogger(__name__)


class TlsTransport:
    """Reaches the other nodes, and is reached by them."""

    def __init__(
        self, directory: Path, host: str, port: int, find: Callable[[int], tuple[str, int] | None]
    ) -> None:
        self._certificates = PeerCertificates(directory)
        self._find = find
        self._refusals = Refusals()
        self._sock = _bind(host, port)
        self.port = int(self._sock.getsockname()[1])
        """The address of this node; a port of 0 is resolved before the node is announced."""

    async def listen(
        self, loop: asyncio.AbstractEventLoop, make: Callable[[], PeerChannel]
    ) -> PeerListener:
        return _TlsListener(loop, self._sock, self._certificates, make, self._refusals)

    async def connect(
        self, loop: asyncio.AbstractEventLoop, number: int, channel: PeerChannel
    ) -> None:
        address = self._find(number)
        if address is None:
            raise ConnectionError(f"node {number} has no address")
        host, port = address
        try:
            async with asyncio.timeout(CONNECT_S):
                transport, _ = await loop.create_connection(
                    lambda: channel,
                    host,
                    port,
                    ssl=self._certificates.to_connect(),
                    server_hostname="",
                    ssl_handshake_timeout=HANDSHAKE_S,
                )
            _keep_alive(transport.get_extra_info("socket"))
        except ssl.SSLError as error:
            self._refusals.note(f"node {number} at {host}:{port} is not trusted", error)
            raise
        except TimeoutError as error:
            raise ConnectionError(f"node {number} does not answer") from error

    def close(self) -> None:
        """Close the port."""
        self._sock.close()


def _bind(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(address)
            sock.listen(BACKLOG)
            sock.setblocking(False)
        except OSError:
            sock.close()
            raise
    except OSError as error:
        raise ConfigError(
            f"cannot listen for the other nodes on {host}:{port}: {error.strerror}"
        ) from error
    return sock


def _keep_alive(sock: socket.socket) -> None:
    """Have the kernel end the connection when the other machine no longer answers."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, SILENCE_S // 2)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, SILENCE_S // 2)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, SILENCE_S * 1000)


@dataclass(eq=False)
class _TlsListener:
    """Accepts connections and admits nodes with a certificate of the cluster."""

    loop: asyncio.AbstractEventLoop
    sock: socket.socket
    certificates: PeerCertificates
    make: Callable[[], PeerChannel]
    refusals: "Refusals"

    def __post_init__(self) -> None:
        self._room = asyncio.Semaphore(HANDSHAKES_MAX)
        self._admitting: set[asyncio.Task[None]] = set()
        self._accepting = self.loop.create_task(self._accept())

    def close(self) -> None:
        self._accepting.cancel()
        for task in self._admitting:
            task.cancel()
        self.sock.close()

    async def _accept(self) -> None:
        while True:
            await self._room.acquire()
            try:
                sock, address = await self.loop.sock_accept(self.sock)
            except OSError as error:
                self._room.release()
                log.error("a connection from another node could not be accepted: %s", error)
                await asyncio.sleep(ACCEPT_RETRY_S)
                continue
            task = self.loop.create_task(self._admit(sock, str(address[0])))
            self._admitting.add(task)
            task.add_done_callback(self._admitted)

    def _admitted(self, task: asyncio.Task[None]) -> None:
        self._admitting.discard(task)
        self._room.release()

    async def _admit(self, sock: socket.socket, where: str) -> None:
        sock.setblocking(False)
        _keep_alive(sock)
        try:
            await self.loop.connect_accepted_socket(
                self.make,
                sock,
                ssl=self.certificates.to_accept(),
                ssl_handshake_timeout=HANDSHAKE_S,
            )
        except ConnectionError:
            sock.close()  # it hangs up or is silent: it may be stopping
        except OSError as error:
            self.refusals.note(f"a connection from {where} to the node port is refused", error)
            sock.close()


class Refusals:
    """Why connections were refused: one log line for each end and reason, since a refused node
    keeps trying."""

    def __init__(self) -> None:
        self._logged: dict[str, str] = {}

    def note(self, what: str, error: OSError) -> None:
        """A connection was refused."""
        reason = _reason(error)
        if self._logged.get(what) == reason:
            return
        if len(self._logged) >= REFUSALS_MAX:
            self._logged.clear()
        self._logged[what] = reason
        log.error("%s: %s", what, reason)


def _reason(error: OSError) -> str:
    """What is wrong with the other end, as a text for operators."""
    text = str(error)
    if "certificate has expired" in text:
        return "its certificate has expired; make a new one with `partibus cluster join`"
    if "not yet valid" in text:
        return "its certificate is not valid yet: one of the two clocks is wrong"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not signed by the authority of this cluster ({text})"
    if "PEER_DID_NOT_RETURN_A_CERTIFICATE" in text:
        return "it did not present a certificate"
    return text or type(error).__name__


def named_node(certificate: dict[str, object] | None) -> str | None:
    """The node named in a verified certificate; None without a certificate."""
    names = (certificate or {}).get("subjectAltName", ())
    assert isinstance(names, tuple)
    return next((str(name) for kind, name in names if kind == "DNS"), None)
