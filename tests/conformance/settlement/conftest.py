"""A server of its own for the tests of settlement, with queues of short times and small sizes.

The fixtures `server`, `queues` and `queue` have the names of those one folder up and stand in
for them here.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from azure.servicebus import _servicebus_receiver, _servicebus_sender

from conformance.settlement.bus import Bus, Closing
from conformance.settlement.namespace import Queues, write_kinds
from support.server import ServerProcess

if TYPE_CHECKING:
    from conformance.settlement.backstage import Backstage


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory: Path = tmp_path_factory.mktemp("settlement")
    with ServerProcess(directory, write_kinds(directory / "namespace.toml")) as process:
        yield process


@pytest.fixture(scope="package")
def queues() -> Queues:
    return Queues()


@pytest.fixture
def queue(queues: Queues) -> str:
    """A queue with every default of the service."""
    return queues.fresh()


def _pause_briefly(seconds: float) -> None:
    time.sleep(seconds / 10)


@pytest.fixture(scope="package", autouse=True)
def _links_open_quickly() -> Iterator[None]:
    """The synchronous client sleeps 50 ms for each frame it reads while a link opens.

    Nothing of what it says or reads is changed, only that pause, which would be two thirds of
    the time of these tests. The other folders run the client as it is.
    """
    with pytest.MonkeyPatch.context() as patch:
        hasty = SimpleNamespace(**vars(time) | {"sleep": _pause_briefly})
        for module in (_servicebus_sender, _servicebus_receiver):
            patch.setattr(module, "time", hasty)
        yield


@pytest.fixture(scope="package")
def closing(server: ServerProcess) -> Iterator[Closing]:
    pool = Closing()
    yield pool
    pool.finish()


@pytest.fixture
def bus(server: ServerProcess, closing: Closing) -> Iterator[Bus]:
    """The stock Python client under test."""
    bus = Bus(server.connection_string)
    yield bus
    closing.close(bus.client)


@pytest.fixture
def stage(server: ServerProcess) -> Iterator["Backstage"]:
    """A generic client that sets the scene and looks at the result."""
    from conformance.settlement.backstage import Backstage

    with Backstage(server) as backstage:
        yield backstage
