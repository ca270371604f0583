"""A node and its ports, started and stopped as one.

Owns the order: ports are bound before anything is opened (a busy port costs no recovery), no client
is admitted before the node is up, and at the end no client is admitted any more before the node
stops. It must never deal with the process (signals, limits, exit codes): `lifecycle` and the test
kit both run it.
"""

import asyncio
import contextlib
import ipaddress
import socket
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from partibus.cluster.membership import Membership
from partibus.domain.clock import Clock
from partibus.domain.errors import ConfigError
from partibus.listener.accept import bind
from partibus.listener.listener import HEADROOM_SOCKETS, Listener, ListenerLimits
from partibus.listener.own_address import is_every_address, own_address
from partibus.listener.served_certificate import ServedCertificate
from partibus.listener.tcp import AmqpProtocol, Client
from partibus.listener.tls import DevelopmentAuthority, certificate_names
from partibus.listener.waiting_room import WaitingRoom
from partibus.server.config import ServeSettings
from partibus.server.data_directory.directory import lock_data_directory

if TYPE_CHECKING:
    from starlette.routing import BaseRoute
    from starlette.types import ASGIApp

    from partibus.gateway.tracing import Tracing
    from partibus.ops.admin.administration import Administration
    from partibus.ops.health import HealthProbe
    from partibus.ops.health_report import HealthReport
    from partibus.server.telemetry.export import Telemetry
    from partibus.server.testing.namespaces import HostedNamespaces

READY_WORD: Final = "PARTIBUS READY"


class ServedGateway(Protocol):
    """The gateway, as the listener sees it."""

    def connect(self, wire: AmqpProtocol) -> Client: ...

    def trace(self, tracing: "Tracing") -> None: ...


class ServedBulkPath(Protocol):
    """The bulk path, which has its own port and needs the certificate there."""

    certificates: Callable[[], tuple[bytes, bytes]] | None


class ServedNode(Protocol):
    """The node, as its ports see it."""

    @property
    def bulk(self) -> ServedBulkPath: ...

    @property
    def gateway(self) -> ServedGateway: ...

    @property
    def administration(self) -> "Administration": ...

    @property
    def hosted(self) -> "HostedNamespaces | None":
        """The additional namespaces of a server for tests."""
        ...

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    def data_routes(self) -> "Sequence[BaseRoute]":
        """The HTTP routes by which messages are sent and received."""
        ...

    @property
    def health(self) -> "HealthProbe": ...

    def connection_string(self, host: str, port: int) -> str: ...

    def management(self) -> "ASGIApp": ...


@dataclass(slots=True, frozen=True, kw_only=True)
class Endpoints:
    """The addresses of a running node."""

    host: str  # as written in an address: IPv6 in brackets
    amqp_port: int
    http_port: int
    ca_path: Path
    connection_string: str

    def ready_line(self) -> str:
        """The one line that `serve` prints; its last field extends to the end of the line."""
        return (
            f"{READY_WORD} amqp={self.host}:{self.amqp_port} http={self.host}:{self.http_port}"
            f" ca={self.ca_path} connection-string={self.connection_string}"
        )


@dataclass(eq=False)
class Service:
    """One node with its listener; `start` once, `stop` once."""

    node: ServedNode
    settings: ServeSettings
    clock: Clock
    sockets_max: int
    membership: Membership | None = None
    """Set for a worker, whose ports and certificates are shared with others."""

    def __post_init__(self) -> None:
        self._cleanup = contextlib.ExitStack()
        self._listener: Listener | None = None
        self._is_stopping = False
        self._telemetry: Telemetry | None = None

    async def start(self) -> Endpoints:
        """Bind, open, and admit clients; cleans up after a failure."""
        try:
            return await self._start()
        except BaseException:
            self._cleanup.close()
            raise

    async def stop(self) -> None:
        """Stop accepting, close the clients' connections, make everything durable, and close."""
        assert self._listener is not None
        self._is_stopping = True
        self._listener.close_ports()
        await self.node.stop()
        await self._listener.drain()
        if self._telemetry is not None:
            await self._telemetry.stop()
        self._cleanup.close()

    def is_supervised(self) -> bool:
        """Whether the process that replaces workers is running."""
        return self.node.health.is_supervised()

    async def alive(self) -> dict[int, bool]:
        """Whether the loops of all workers run; a stopping server does not ask the others."""
        return {} if self._is_stopping else await self.node.health.alive()

    async def report(self) -> "HealthReport":
        """The basis of `/health` and `/readyz`."""
        if self._is_stopping:
            from partibus.ops.health_report import HealthReport

            return HealthReport(workers={}, stores={}, is_draining=True)
        return await self.node.health.report()

    async def _start(self) -> Endpoints:
        loop = asyncio.get_running_loop()
        # While a worker does not listen, its share of the clients goes to the others, so it binds
        # last; a single process binds first, since a busy port ends it anyway.
        ports = self._bind() if self.membership is None else {}
        if self.membership is None:  # the supervisor has locked it for its workers
            lock_data_directory(self.settings, self._cleanup)
        identity = identity_of(self.settings, self._tls_directory, self.clock)
        waiting = self._waiting_room(loop, ports)
        # Making keys loads a large library; the stores are opened meanwhile.
        making = loop.run_in_executor(None, identity.ensure)
        started, made = await asyncio.gather(self.node.start(), making, return_exceptions=True)
        waiting.close()
        if isinstance(started, BaseException):
            raise started
        if isinstance(made, BaseException):
            await self.node.stop()
            raise made
        self._open_telemetry()
        ports = ports or self._bind()
        self._listener = self._listen(loop, identity)
        self.node.bulk.certificates = identity.server_pair
        for sockets in ports.values():
            for sock in sockets:
                self._listener.accept_from(sock)
        return self._endpoints(ports, identity.ca_path)

    def _open_telemetry(self) -> None:
        """Export traces and metrics if requested; otherwise the SDK is not loaded."""
        if not self.settings.otel:
            return
        from partibus.server.telemetry.export import open_telemetry

        worker = 0 if self.membership is None else self.membership.worker
        self._telemetry = open_telemetry(worker)
        if self._telemetry.tracing is not None:
            self.node.gateway.trace(self._telemetry.tracing)
        self._telemetry.start(self.node.administration.signals.gather_for_export)

    def _bind(self) -> dict[str, list[socket.socket]]:
        """The listening sockets by flag, in the order in which one flag replaces another."""
        host = self.settings.host
        bound = {}
        for flag, port in wanted_ports(self.settings).items():
            bound[flag] = bind(host, port, flag, shared=self.membership is not None)
            for sock in bound[flag]:
                self._cleanup.callback(sock.close)
        return bound

    def _waiting_room(
        self, loop: asyncio.AbstractEventLoop, ports: dict[str, list[socket.socket]]
    ) -> WaitingRoom:
        """Tools that start a server ask for its health at once."""
        sockets = ports.get("--http-port", [])
        room = WaitingRoom(loop, sockets)
        self._cleanup.callback(room.close)
        return room

    def _tls_directory(self) -> Path:
        if self.membership is not None:
            return self.membership.tls
        if not self.settings.memory:
            return self.settings.data / "tls"
        temporary = tempfile.TemporaryDirectory(prefix="partibus-tls-")
        return Path(self._cleanup.enter_context(temporary))

    def _listen(self, loop: asyncio.AbstractEventLoop, identity: "Identity") -> Listener:
        connections_max = self.settings.profile.connections_max
        limits = ListenerLimits(
            connections_max=connections_max,
            sockets_max=min(connections_max + HEADROOM_SOCKETS, self.sockets_max),
        )
        return Listener(
            loop=loop,
            clock=self.clock,
            limits=limits,
            connect=self.node.gateway.connect,
            tls_context=identity.context,
            http_application=self._http_application,
        )

    def _http_application(self) -> "ASGIApp":
        from partibus.atom.application import with_management
        from partibus.console.pages import console_routes
        from partibus.ops.health import operations_application
        from partibus.ops.observed import ObservedApplication

        routes = [*console_routes(self.settings.console), *self.node.data_routes()]
        operations = operations_application(
            self, self.node.administration, routes, self.settings.metrics
        )
        application = ObservedApplication(with_management(self.node.management(), operations))
        if self.node.hosted is None:
            return application
        from partibus.server.testing.application import HostedApplication

        return HostedApplication(self.node.hosted, application)

    def _endpoints(self, ports: dict[str, list[socket.socket]], ca_path: Path) -> Endpoints:
        numbers = {flag: int(sockets[0].getsockname()[1]) for flag, sockets in ports.items()}
        return endpoints_of(numbers, self.settings, ca_path, self.node.connection_string)


Identity = DevelopmentAuthority | ServedCertificate
"""Where the server's certificate comes from."""


def identity_of(settings: ServeSettings, directory: Callable[[], Path], clock: Clock) -> Identity:
    """The user's certificate if there is one, else one of the development CA."""
    if settings.tls_cert is not None and settings.tls_key is not None:
        return ServedCertificate(settings.tls_cert, settings.tls_key, clock)
    return DevelopmentAuthority(directory(), certificate_names(settings.host), clock)


def wanted_ports(settings: ServeSettings) -> dict[str, int]:
    """The ports that are not switched off by flag; without any there is nothing to serve."""
    ports = {
        "--port": settings.port,
        "--tls-port": settings.tls_port,
        "--http-port": settings.http_port,
    }
    wanted = {flag: port for flag, port in ports.items() if port is not None}
    if not wanted:
        raise ConfigError("all ports are disabled: give --port a number (0 picks a free one)")
    return wanted


def endpoints_of(
    numbers: Mapping[str, int],
    settings: ServeSettings,
    ca_path: Path,
    connection_string: Callable[[str, int], str],
) -> Endpoints:
    """Every port detects the protocol, so any of them can replace one that is switched off."""
    any_port = next(iter(numbers.values()))
    amqp_port = numbers.get("--port", any_port)
    host = reachable_host(settings.host)
    return Endpoints(
        host=host,
        amqp_port=amqp_port,
        http_port=numbers.get("--http-port", any_port),
        ca_path=ca_path.resolve(),
        connection_string=connection_string(host, amqp_port),
    )


def reachable_host(host: str) -> str:
    """The host name for clients, which cannot connect to 'every address'."""
    if is_every_address(host):
        host = own_address(host)
    try:
        return f"[{host}]" if ipaddress.ip_address(host).version == 6 else host
    except ValueError:
        return host
