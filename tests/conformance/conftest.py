"""The running server and fresh queues for the tests that drive stock clients against it.

One server process serves all tests of the session; each test takes queues nobody else uses.
When a test fails, what the server logged during it is part of the report.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from azure.servicebus import ServiceBusClient
from xdist.scheduler import LoadScopeScheduling

from conformance import one_machine
from support.collected import tests_below
from support.garbage import collect_garbage
from support.namespace import Queues, write_namespace
from support.server import ON_CLUSTER, ServerProcess

HERE = Path(__file__).parent


@pytest.fixture(scope="session", autouse=True)
def _databases(request: pytest.FixtureRequest) -> Iterator[None]:
    """With `make test-cluster` each server of a test is a cluster, and needs these."""
    if not os.environ.get(ON_CLUSTER):
        yield
        return
    from support.nodes.cluster_server import ClusterServer, forget_certificates

    ClusterServer.postgres = request.getfixturevalue("postgres")
    yield
    forget_certificates()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory: Path = tmp_path_factory.mktemp("server")
    with ServerProcess(directory, write_namespace(directory / "namespace.toml")) as process:
        yield process


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


class FolderScheduling(LoadScopeScheduling):
    """One process runs all tests of a folder."""

    def _split_scope(self, nodeid: str) -> str:
        return nodeid.partition("::")[0].rpartition("/")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling | None:
    """The cluster of a folder starts once, and ends with its tests."""
    return FolderScheduling(config, log) if os.environ.get(ON_CLUSTER) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    ours = tests_below(HERE, items)
    for item in ours:
        item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))
    if os.environ.get(ON_CLUSTER):
        for item in ours:
            item.add_marker(pytest.mark.group("postgres"))
        left_out = [item for item in ours if one_machine.reason(item) is not None]
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=left_out)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if os.environ.get(ON_CLUSTER):
        for line in one_machine.lines():
            terminalreporter.write_line(line)


@pytest.fixture(autouse=True)
def _abandoned_sockets() -> Iterator[None]:
    """The stock client lets go of a broken connection without closing its socket.

    Collected here, where the warning is expected, and not in some later test.
    """
    yield
    collect_garbage()


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
