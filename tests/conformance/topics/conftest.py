"""A server for the tests of topics, with every kind of topic whole and in partitions."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from azure.servicebus import _servicebus_receiver, _servicebus_sender

from conformance.settlement.bus import Closing
from conformance.topics.bus import TopicBus
from conformance.topics.namespace import SHAPES, STORES, Topics, write_kinds
from support.server import ServerProcess

Fresh = Callable[[str], str]


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory: Path = tmp_path_factory.mktemp("topics")
    config = write_kinds(directory / "namespace.toml")
    with ServerProcess(directory, config, "--stores", str(STORES)) as process:
        yield process


@pytest.fixture(scope="package")
def topics() -> Topics:
    return Topics()


@pytest.fixture(params=SHAPES)
def shape(request: pytest.FixtureRequest) -> str:
    shape: str = request.param
    return shape


@pytest.fixture
def fresh(topics: Topics, shape: str) -> Fresh:
    """A topic of a kind that nobody has used."""
    return lambda kind: topics.fresh(kind, shape)


@pytest.fixture
def topic(fresh: Fresh) -> str:
    """A topic with two subscriptions that get everything."""
    return fresh("plain")


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
def bus(server: ServerProcess, closing: Closing) -> Iterator[TopicBus]:
    """The stock Python client under test."""
    bus = TopicBus(server.connection_string)
    yield bus
    closing.close(bus.client)
