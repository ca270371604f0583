"""A server of its own for the tests of duplicate detection, and fresh queues that detect them.

The fixtures `server`, `queues` and `queue` have the names of those one folder up and stand in
for them here.
"""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from azure.servicebus.aio import ServiceBusClient as AsyncServiceBusClient

from conformance.duplicates.namespace import Queues, write_kinds
from conformance.partitioning.operator import Operator
from conformance.settlement.bus import Bus, Closing
from support.server import ServerProcess


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory: Path = tmp_path_factory.mktemp("duplicates")
    config = write_kinds(directory / "namespace.toml")
    with ServerProcess(directory, config, "--stores", "2") as process:
        yield process


@pytest.fixture(scope="package")
def queues() -> Queues:
    return Queues()


@pytest.fixture
def queue(queues: Queues) -> str:
    """A queue that detects duplicates within ten minutes."""
    return queues.fresh()


@pytest.fixture
def operator(server: ServerProcess) -> Operator:
    return Operator(server)


@pytest.fixture(scope="module")
def _closing(server: ServerProcess) -> Iterator[Closing]:
    closing = Closing()
    yield closing
    closing.finish()


@pytest.fixture
def bus(server: ServerProcess, _closing: Closing) -> Iterator[Bus]:
    """The stock Python client under test."""
    bus = Bus(server.connection_string)
    yield bus
    _closing.close(bus.client)


@pytest_asyncio.fixture
async def async_client(server: ServerProcess) -> AsyncIterator[AsyncServiceBusClient]:
    """The stock asynchronous client under test."""
    async with AsyncServiceBusClient.from_connection_string(
        server.connection_string, retry_total=0
    ) as connected:
        yield connected
