"""What is prepared once for all workers, and the main process from its start to its exit code."""

import asyncio
import contextlib
import socket
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from partibus.control.catalog.catalog import Catalog
from partibus.domain.errors import ConfigError
from partibus.server.config import Configuration, resolve_configuration
from partibus.server.workers import supervision
from partibus.server.workers.assignment import Assignment
from partibus.server.workers.supervision import SOCKET_PATH_BYTES_MAX, prepare, supervise

QUEUE = '[[queue]]\nname = "orders"\nenable_partitioning = true\n'


@pytest.fixture
def cleanup() -> Iterator[contextlib.ExitStack]:
    with contextlib.ExitStack() as stack:
        yield stack


def configuration(directory: Path, **flags: object) -> Configuration:
    config = directory / "namespace.toml"
    config.write_text(QUEUE, encoding="utf-8")
    given = {
        "data": directory / "data",
        "config": config,
        "port": "0",
        "tls_port": "none",
        "http_port": "0",
        "workers": "2",
        "stores": "2",
    }
    return resolve_configuration(given | flags, {})


def test_ports_are_settled_and_held(tmp_path: Path, cleanup: contextlib.ExitStack) -> None:
    settings, _, settle = prepare(configuration(tmp_path), cleanup)
    endpoints = settle()
    assert settings.port and settings.http_port and settings.tls_port is None
    assert (endpoints.amqp_port, endpoints.http_port) == (settings.port, settings.http_port)
    assert endpoints.ready_line().startswith(f"PARTIBUS READY amqp=127.0.0.1:{settings.port} ")
    with socket.socket() as other, pytest.raises(OSError):
        other.bind(("127.0.0.1", settings.port))


def test_the_catalog_is_as_declared_before_any_worker_serves(
    tmp_path: Path, cleanup: contextlib.ExitStack
) -> None:
    settings, membership, settle = prepare(configuration(tmp_path), cleanup)
    place = membership(1)
    with contextlib.closing(Catalog(place.catalog, stores=2)) as untouched:
        assert not untouched.entities(), "the stores were not checked yet"
    endpoints = settle()
    assert place.catalog == settings.data / "catalog.db"
    catalog = Catalog(place.catalog, stores=2)
    try:
        record = catalog.entity("orders")
        assert {placement.store for placement in record.fragments} == {0, 1}
        policy = catalog.policies()[0]
        assert f"SharedAccessKey={policy.primary_key};" in endpoints.connection_string
    finally:
        catalog.close()


def test_workers_share_a_run_and_a_directory_of_their_own(
    tmp_path: Path, cleanup: contextlib.ExitStack
) -> None:
    _, membership, _ = prepare(configuration(tmp_path, memory=True), cleanup)
    one, two = membership(0), membership(1)
    assert (one.worker, two.worker) == (0, 1)
    assert (one.group_id, one.runtime, one.catalog, one.tls) == (
        two.group_id,
        two.runtime,
        two.catalog,
        two.tls,
    )
    assert stat.S_IMODE(one.runtime.stat().st_mode) == 0o700
    assert one.catalog.parent == one.runtime, "in memory nothing is kept elsewhere"
    assert not (tmp_path / "data").exists()
    cleanup.close()
    assert not one.runtime.exists()


def test_a_deep_temporary_directory_is_not_used_for_sockets(
    tmp_path: Path, cleanup: contextlib.ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("d" * SOCKET_PATH_BYTES_MAX)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    _, membership, _ = prepare(configuration(tmp_path), cleanup)
    place = membership(1)
    assert len(bytes(place.socket_path(1))) <= SOCKET_PATH_BYTES_MAX


def test_a_busy_port_and_no_port_are_told(tmp_path: Path, cleanup: contextlib.ExitStack) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"port {port} on 127.0.0.1 is in use"):
            prepare(configuration(tmp_path, port=str(port)), cleanup)
    with pytest.raises(ConfigError, match="all ports are disabled"):
        prepare(configuration(tmp_path, port="none", http_port="none"), cleanup)


class FakeProcess:
    """A worker that is ready at once, or ends at once."""

    signs_of_life = 0

    def __init__(self, code: int | None) -> None:
        self.pid = 4711
        self._ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        if code is not None:
            self._ended.set_result(code)

    async def wait_checked(self) -> bool:
        return not self._ended.done()

    def go(self) -> None:
        """Everything is settled."""

    async def wait_ready(self) -> bool:
        return not self._ended.done()

    async def wait(self) -> int:
        return await asyncio.shield(self._ended)

    def terminate(self) -> None:
        if not self._ended.done():
            self._ended.set_result(0)

    def kill(self) -> None:
        raise AssertionError("a worker that stops is not killed")


async def run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    codes: dict[int, int],
) -> tuple[int, list[str]]:
    """Supervise workers that end at once with the given codes; a signal comes when ready."""
    announced: list[str] = []
    stop: list[Callable[[], None]] = []

    async def launch(assignment: Assignment) -> FakeProcess:
        return FakeProcess(codes.get(assignment.membership.worker))

    def announce(line: str) -> None:
        announced.append(line)
        stop[0]()

    monkeypatch.setattr(supervision, "launch", launch)
    code = await supervise(
        configuration(tmp_path), lambda _, stopping: stop.append(stopping), announce
    )
    return code, announced


async def test_it_announces_once_and_ends_clean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, announced = await run(tmp_path, monkeypatch, codes={})
    assert code == 0
    (line,) = announced
    assert line.startswith("PARTIBUS READY")


@pytest.mark.parametrize("code, expected", [(3, 3), (2, 2), (1, 1), (-9, 1)])
async def test_a_worker_that_does_not_start_ends_it_unannounced(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    code: int,
    expected: int,
) -> None:
    ended, announced = await run(tmp_path, monkeypatch, codes={1: code})
    assert (ended, announced) == (expected, [])
    said = capsys.readouterr().err
    # With 2 and 3 the worker itself has told what to correct.
    assert ("worker 1 did not start" in said) == (expected == 1)
