"""A server with four stores for the tests of partitioning, and partitioned queues.

The fixtures `server`, `queues` and `queue` have the names of those one folder up and stand in
for them here.
"""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
from azure.servicebus.aio import ServiceBusClient as AsyncServiceBusClient

from conformance.partitioning.namespace import STORES, Queues, write_kinds
from conformance.settlement.bus import Bus, Closing
from conformance.settlement.namespace import write_queues
from support.server import ServerProcess

if TYPE_CHECKING:
    from conformance.partitioning.wire import Wire


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory: Path = tmp_path_factory.mktemp("partitioning")
    config = write_kinds(directory / "namespace.toml")
    with ServerProcess(directory, config, "--stores", str(STORES)) as process:
        yield process


@pytest.fixture(scope="package")
def tier(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with the profile of the Standard tier and a few queues, "tier-0" and on."""
    directory: Path = tmp_path_factory.mktemp("tier")
    queues: dict[str, dict[str, str]] = {
        f"tier-{number}": {"enable_partitioning": "true"} for number in range(4)
    }
    config = write_queues(directory / "namespace.toml", queues | {"tier-whole": {}})
    with ServerProcess(directory, config, "--profile", "standard") as process:
        yield process


@pytest.fixture(scope="package")
def queues() -> Queues:
    return Queues()


@pytest.fixture
def queue(queues: Queues) -> str:
    """A queue of four partitions."""
    return queues.fresh()


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


@pytest.fixture
def wire(server: ServerProcess) -> Iterator["Wire"]:
    """A generic client that sets the scene and looks at the result."""
    from conformance.partitioning.wire import Wire

    with Wire(server) as connected:
        yield connected
