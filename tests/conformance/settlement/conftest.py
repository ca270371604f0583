"""A server of its own for the tests of settlement, with queues of short times and small sizes.

The fixtures `server`, `queues` and `queue` have the names of those one folder up and stand in
for them here.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

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


@pytest.fixture(scope="package")
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


@pytest.fixture
def stage(server: ServerProcess) -> Iterator["Backstage"]:
    """A generic client that sets the scene and looks at the result."""
    from conformance.settlement.backstage import Backstage

    with Backstage(server) as backstage:
        yield backstage
