"""A server with four stores for the tests of forwarding, and stock clients.

The fixture `server` has the name of that one folder up and stands in for it here.
"""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from azure.servicebus import ServiceBusSender
from azure.servicebus.aio import ServiceBusClient as AsyncServiceBusClient

from conformance.forwarding.namespace import STORES, write_namespace
from conformance.partitioning.operator import Operator
from conformance.settlement.bus import Bus, Closing
from conformance.settlement.conftest import _links_open_quickly
from support.server import ServerProcess

__all__ = ["_links_open_quickly"]


@pytest.fixture(scope="package", autouse=True)
def _senders_close_later() -> Iterator[None]:
    """A sender that is left is closed with its client, behind the test's back."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ServiceBusSender, "__exit__", lambda sender, *error: None)
        yield


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory: Path = tmp_path_factory.mktemp("forwarding")
    config = write_namespace(directory / "namespace.toml")
    with ServerProcess(directory, config, "--stores", str(STORES), "--faults") as process:
        yield process


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
    async with AsyncServiceBusClient.from_connection_string(
        server.connection_string, retry_total=0
    ) as client:
        yield client
