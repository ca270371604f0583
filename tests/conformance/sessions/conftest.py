"""A server for the tests of sessions, with session queues whole and in partitions.

The fixtures `server`, `queues` and `queue` have the names of those one folder up and stand in
for them here.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from azure.servicebus import _servicebus_receiver, _servicebus_sender

from conformance.sessions.bus import SessionBus
from conformance.sessions.namespace import SHAPES, STORES, Queues, write_kinds
from conformance.settlement.bus import Closing
from support.server import ServerProcess


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory: Path = tmp_path_factory.mktemp("sessions")
    config = write_kinds(directory / "namespace.toml")
    with ServerProcess(directory, config, "--stores", str(STORES)) as process:
        yield process


@pytest.fixture(scope="package")
def queues() -> Queues:
    return Queues()


@pytest.fixture(params=SHAPES)
def queue(request: pytest.FixtureRequest, queues: Queues) -> str:
    """A session queue with a lock of a minute."""
    return queues.fresh(request.param)


@pytest.fixture(params=SHAPES)
def brief(request: pytest.FixtureRequest, queues: Queues) -> str:
    """A session queue with a lock of two seconds."""
    return queues.fresh(f"brief-{request.param}")


@pytest.fixture(params=SHAPES)
def renewed(request: pytest.FixtureRequest, queues: Queues) -> str:
    """A session queue with a lock that clients renew by themselves."""
    return queues.fresh(f"renewed-{request.param}")


def _pause_briefly(seconds: float) -> None:
    time.sleep(seconds / 10)


@pytest.fixture(scope="package", autouse=True)
def _links_open_quickly() -> Iterator[None]:
    """The synchronous client's own pauses while a link opens, made shorter; nothing else is."""
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
def bus(server: ServerProcess, closing: Closing) -> Iterator[SessionBus]:
    """The stock Python client under test."""
    bus = SessionBus(server.connection_string)
    yield bus
    closing.close(bus.client)
