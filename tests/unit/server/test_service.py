"""A node and its ports as one: the order of the start, the order of the stop, what fails how."""

import asyncio
import json
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from partibus.domain.clock import SystemClock
from partibus.domain.errors import ConfigError, StoreCorrupt
from partibus.listener.own_address import own_address
from partibus.listener.tcp import AmqpProtocol
from partibus.ops.health_report import HealthReport, StoreHealth
from partibus.server.config import ServeSettings
from partibus.server.service import Service, reachable_host

HEADER = b"AMQP\x00\x01\x00\x00"


class EchoClient:
    def __init__(self, wire: AmqpProtocol, log: list[str]) -> None:
        self.wire = wire
        self._log = log

    def data_received(self, data: bytes) -> None:
        self.wire.write(data)

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...

    def connection_lost(self) -> None:
        self._log.append("client lost")


class FakeBulk:
    certificates: Callable[[], tuple[bytes, bytes]] | None = None


class FakeNode:
    """Records what it is told; its gateway echoes."""

    administration = None
    hosted = None

    def __init__(self, failure: Exception | None = None) -> None:
        self.log: list[str] = []
        self.clients: list[EchoClient] = []
        self.bulk = FakeBulk()
        self.failure = failure
        self.is_healthy = True

    @property
    def gateway(self) -> "FakeNode":
        return self

    def connect(self, wire: AmqpProtocol) -> EchoClient:
        client = EchoClient(wire, self.log)
        self.clients.append(client)
        return client

    async def start(self) -> None:
        if self.failure is not None:
            raise self.failure
        self.log.append("node started")

    async def stop(self) -> None:
        self.log.append("node stopped")
        for client in self.clients:
            client.wire.write(b"forced")
            client.wire.close()

    def data_routes(self) -> tuple[()]:
        return ()

    @property
    def health(self) -> "FakeNode":
        return self

    def is_supervised(self) -> bool:
        return True

    async def alive(self) -> dict[int, bool]:
        return {0: True}

    async def report(self) -> HealthReport:
        return HealthReport(workers={0: self.is_healthy}, stores={0: StoreHealth(state="up")})

    def connection_string(self, host: str, port: int) -> str:
        return f"Endpoint=sb://{host}:{port};UseDevelopmentEmulator=true;"

    def management(self) -> None:
        """None of its tests administers."""


class SlowNode(FakeNode):
    """Starts when it may."""

    def __init__(self, failure: Exception | None = None) -> None:
        super().__init__(failure)
        self.is_starting = asyncio.Event()
        self.may_start = asyncio.Event()

    async def start(self) -> None:
        self.is_starting.set()
        await self.may_start.wait()
        await super().start()


def settings(data: Path, **changes: object) -> ServeSettings:
    ports = {"port": 0, "tls_port": 0, "http_port": 0}
    return ServeSettings(data=data, **(ports | changes))


def service(node: FakeNode, chosen: ServeSettings) -> Service:
    return Service(node, chosen, SystemClock(), sockets_max=100)


def names_in(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


async def health(port: int) -> tuple[int, dict[str, str]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    return int(head.split()[1]), json.loads(body)


async def test_it_serves_between_start_and_stop(tmp_path: Path) -> None:
    node = FakeNode()
    served = service(node, settings(tmp_path))
    endpoints = await served.start()
    assert node.log == ["node started"]
    reader, writer = await asyncio.open_connection("127.0.0.1", endpoints.amqp_port)
    writer.write(HEADER)
    assert await reader.readexactly(8) == HEADER
    assert await health(endpoints.http_port) == (
        200,
        {"status": "healthy", "message": "Service is healthy."},
    )
    node.is_healthy = False
    assert (await health(endpoints.amqp_port))[0] == 503

    await served.stop()
    assert await reader.read() == b"forced"
    writer.close()
    assert node.log == ["node started", "node stopped", "client lost"]
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", endpoints.amqp_port)
    assert (await served.report()).is_draining


@pytest.mark.rule("EMU-6")
@pytest.mark.parametrize("failure", [None, StoreCorrupt("segment 0: bad")])
@pytest.mark.parametrize("emulator", [True, False])
async def test_it_says_that_it_is_not_ready_yet(
    tmp_path: Path, failure: Exception | None, emulator: bool
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    node = SlowNode(failure)
    served = service(node, settings(tmp_path, http_port=port, emulator=emulator))
    starting = asyncio.create_task(served.start())
    await node.is_starting.wait()
    text = "Service not available. Please try after some time."
    assert await health(port) == (503, {"status": "unhealthy", "message": text})
    node.may_start.set()
    if failure is not None:
        with pytest.raises(StoreCorrupt):
            await starting
        socket.create_server(("127.0.0.1", port)).close()
        return
    await starting
    assert (await health(port))[0] == 200
    await served.stop()


async def test_the_ready_line_says_where(tmp_path: Path) -> None:
    served = service(FakeNode(), settings(tmp_path))
    endpoints = await served.start()
    assert endpoints.ready_line() == (
        f"PARTIBUS READY amqp=127.0.0.1:{endpoints.amqp_port} http=127.0.0.1:{endpoints.http_port}"
        f" ca={tmp_path / 'tls' / 'ca.pem'}"
        f" connection-string=Endpoint=sb://127.0.0.1:{endpoints.amqp_port};"
        "UseDevelopmentEmulator=true;"
    )
    assert endpoints.ca_path.exists()
    await served.stop()


@pytest.mark.parametrize(
    ("host", "told"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("0.0.0.0", own_address("0.0.0.0")),
        ("::1", "[::1]"),
        ("bus.example", "bus.example"),
    ],
)
def test_clients_are_told_a_host_that_they_can_reach(host: str, told: str) -> None:
    assert reachable_host(host) == told


@pytest.mark.parametrize("kept", ["port", "tls_port", "http_port"])
async def test_any_port_stands_in_for_those_switched_off(tmp_path: Path, kept: str) -> None:
    off = {"port": None, "tls_port": None, "http_port": None} | {kept: 0}
    served = service(FakeNode(), settings(tmp_path, **off))
    endpoints = await served.start()
    assert endpoints.amqp_port == endpoints.http_port
    assert (await health(endpoints.http_port))[0] == 200
    await served.stop()


async def test_no_port_at_all_is_an_error(tmp_path: Path) -> None:
    node = FakeNode()
    served = service(node, settings(tmp_path, port=None, tls_port=None, http_port=None))
    with pytest.raises(ConfigError, match="all ports are disabled"):
        await served.start()
    assert node.log == []


async def test_a_busy_port_is_found_before_anything_is_opened(tmp_path: Path) -> None:
    node = FakeNode()
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        served = service(node, settings(tmp_path, http_port=port))
        with pytest.raises(ConfigError, match=f"port {port} .* --http-port"):
            await served.start()
    assert node.log == []
    assert names_in(tmp_path) == []


async def test_a_node_that_does_not_start_leaves_no_port_open(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    served = service(FakeNode(StoreCorrupt("segment 0: bad")), settings(tmp_path, port=port))
    with pytest.raises(StoreCorrupt, match="segment 0: bad"):
        await served.start()
    socket.create_server(("127.0.0.1", port)).close()


async def test_a_node_is_stopped_when_tls_cannot_be_had(tmp_path: Path) -> None:
    (tmp_path / "tls").write_text("in the way")
    node = FakeNode()
    with pytest.raises(ConfigError, match="cannot write TLS files"):
        await service(node, settings(tmp_path)).start()
    assert node.log == ["node started", "node stopped"]


async def test_a_data_directory_that_cannot_be_is_named(tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.touch()
    node = FakeNode()
    for data, reason in ((in_the_way, "it is a file"), (in_the_way / "below", "Not a directory")):
        with pytest.raises(ConfigError, match=f"--data {data} cannot be used .*: {reason}"):
            await service(node, settings(data)).start()
    assert node.log == []


async def test_memory_leaves_nothing_on_disk(tmp_path: Path) -> None:
    served = service(FakeNode(), settings(tmp_path / "data", memory=True))
    endpoints = await served.start()
    assert endpoints.ca_path.exists()
    await served.stop()
    assert not endpoints.ca_path.parent.exists()
    assert names_in(tmp_path) == []
