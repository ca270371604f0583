"""The running server and fresh queues for the tests that drive stock clients against it.

One server process serves all tests of the session; each test takes queues nobody else uses.
When a test fails, what the server logged during it is part of the report.
"""

import gc
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from azure.servicebus import ServiceBusClient

from support.namespace import Queues, write_namespace
from support.server import ServerProcess

if TYPE_CHECKING:
    from support.postgres import PostgresServer

HERE = Path(__file__).parent
ON_CLUSTER = "PARTIBUS_TESTS_ON_CLUSTER"
"""Set by `make test-cluster`: the server of the session is a node of a cluster."""


@pytest.fixture(scope="session")
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    directory: Path = tmp_path_factory.mktemp("server")
    config = write_namespace(directory / "namespace.toml")
    if os.environ.get(ON_CLUSTER):
        yield from _node(directory, config, request.getfixturevalue("postgres"))
        return
    with ServerProcess(directory, config) as process:
        yield process


def _node(directory: Path, config: Path, postgres: "PostgresServer") -> Iterator[ServerProcess]:
    """A node of three, with two databases; each process of the tests has a cluster of its own."""
    from support.cluster import TestCluster, new_database

    control, *stores = [new_database(postgres) for _ in range(3)]
    with TestCluster(directory, control, config, 3, stores) as cluster:
        yield cluster.nodes[0]


@pytest.fixture(scope="session")
def queues() -> Queues:
    return Queues()


@pytest.fixture
def queue(queues: Queues) -> str:
    """A queue with every default of the service."""
    return queues.fresh("plain")


@pytest.fixture
def client(server: ServerProcess) -> Iterator[ServiceBusClient]:
    """A stock client that shows the first error instead of trying again."""
    with ServiceBusClient.from_connection_string(
        server.connection_string, retry_total=0
    ) as connected:
        yield connected


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))


@pytest.fixture(autouse=True)
def _abandoned_sockets() -> Iterator[None]:
    """The stock client lets go of a broken connection without closing its socket.

    Collected here, where the warning is expected, and not in some later test.
    """
    yield
    gc.collect()


@pytest.fixture(autouse=True)
def _log_offset(request: pytest.FixtureRequest) -> None:
    if "server" in request.fixturenames:
        process = request.getfixturevalue("server")
        request.node.stash[_OFFSET] = process.log.stat().st_size


_OFFSET = pytest.StashKey[int]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[Any]:
    report = yield
    process = getattr(item, "funcargs", {}).get("server")
    if report.when == "call" and report.failed and isinstance(process, ServerProcess):
        text = process.log_text(item.stash.get(_OFFSET, 0))
        report.sections.append(("Server log", text))
    return report
