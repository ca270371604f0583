"""One server for every verb; each test makes the entities that it needs."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from azure.servicebus import ServiceBusClient

from cli.command import Partibus
from support.server import ServerProcess

NAMESPACE = """
[[policy]]
name = "Reader"
key = "reader-key"
rights = ["Listen"]

[[policy]]
name = "Writer"
key = "writer-key"
rights = ["Send"]
"""
_numbers = itertools.count()

MakeQueue = Callable[..., str]


@pytest.fixture(scope="package")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory = tmp_path_factory.mktemp("verbs")
    config = directory / "namespace.toml"
    config.write_text(NAMESPACE, encoding="utf-8")
    with ServerProcess(directory, config) as process:
        yield process


@pytest.fixture
def partibus(bus: ServerProcess, tmp_path: Path) -> Partibus:
    return Partibus(bus.connection_string, tmp_path / "home")


@pytest.fixture
def make_queue(partibus: Partibus) -> MakeQueue:
    """Makes a queue with these flags; answers its name."""

    def make(*flags: str) -> str:
        name = f"queue-{next(_numbers)}"
        partibus("queue", "create", name, *flags)
        return name

    return make


@pytest.fixture
def queue(make_queue: MakeQueue) -> str:
    return make_queue()


@pytest.fixture
def client(bus: ServerProcess) -> Iterator[ServiceBusClient]:
    """A stock client, to see what the command really did."""
    with ServiceBusClient.from_connection_string(bus.connection_string, retry_total=0) as connected:
        yield connected
