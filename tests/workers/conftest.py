"""Servers of two workers over four stores, one for the quiet tests and fresh ones for the rest.

When a test fails, what its server logged is part of the report.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from azure.servicebus import ServiceBusClient

from support.collected import tests_below
from support.garbage import collect_garbage
from support.workers import WorkersServer, declare

HERE = Path(__file__).parent

NewServer = Callable[..., WorkersServer]
_SERVERS = pytest.StashKey[list[WorkersServer]]()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkersServer]:
    """A server that no test of the module maltreats."""
    directory: Path = tmp_path_factory.mktemp("workers")
    with WorkersServer(directory, declare(directory / "namespace.toml")) as process:
        yield process


@pytest.fixture
def new_server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[NewServer]:
    """Makes servers that a test may kill; those still running are ended."""
    made: list[WorkersServer] = request.node.stash.setdefault(_SERVERS, [])

    def make(*flags: str, settings: str = "") -> WorkersServer:
        place = tmp_path / f"server-{len(made)}"
        place.mkdir()
        config = declare(place / "namespace.toml")
        config.write_text(f"[server]\n{settings}\n{config.read_text()}")
        made.append(WorkersServer(place, config, *flags))
        made[-1].start()
        return made[-1]

    yield make
    for server in made:
        if server._process is not None:
            server.stop()


@pytest.fixture
def server(new_server: NewServer) -> WorkersServer:
    """A server of this test's own."""
    return new_server()


@pytest.fixture
def client(shared: WorkersServer) -> Iterator[ServiceBusClient]:
    """A stock client that shows the first error instead of trying again."""
    with ServiceBusClient.from_connection_string(
        shared.connection_string, retry_total=0
    ) as connected:
        yield connected


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in tests_below(HERE, items):
        item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))


@pytest.fixture(autouse=True)
def _abandoned_sockets() -> Iterator[None]:
    """The stock client lets go of a broken connection without closing its socket.

    Collected here, where the warning is expected, and not in some later test.
    """
    yield
    collect_garbage()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[Any]:
    report = yield
    if report.when == "call" and report.failed:
        servers = [*item.stash.get(_SERVERS, [])]
        shared = getattr(item, "funcargs", {}).get("shared")
        for server in [*servers, *([shared] if shared is not None else [])]:
            report.sections.append((f"Server log {server.log.parent}", server.log_text()))
    return report
