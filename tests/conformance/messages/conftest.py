"""A server with queues of every shape, for the tests of what a message carries."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from conformance.settlement.bus import Bus, Closing
from conformance.settlement.namespace import write_queues
from support.server import ServerProcess

PARTITIONS: Final = 4
_SESSIONS: Final = {"requires_session": "true"}
_PARTED: Final = {"enable_partitioning": "true", "partition_count": str(PARTITIONS)}
SHAPES: Final = {
    "plain": {},
    "parted": _PARTED,
    # Whole: the Python client cannot send on a number beyond 32 bits.
    "detecting": {"requires_duplicate_detection": "true"},
    "session": _SESSIONS,
    "parted-session": _PARTED | _SESSIONS,
}
QUEUES_EACH: Final = 60


class Queues:
    """Hands out the names of queues of a shape, each once."""

    def __init__(self) -> None:
        self._next = {shape: itertools.count() for shape in SHAPES}

    def fresh(self, shape: str) -> str:
        number = next(self._next[shape])
        assert number < QUEUES_EACH, f"declare more queues of the shape {shape!r}"
        return f"{shape}-{number}"


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory: Path = tmp_path_factory.mktemp("messages")
    queues = {
        f"{shape}-{number}": properties
        for shape, properties in SHAPES.items()
        for number in range(QUEUES_EACH)
    }
    config = write_queues(directory / "namespace.toml", queues)
    with ServerProcess(directory, config, "--stores", "2") as process:
        yield process


@pytest.fixture(scope="package")
def queues() -> Queues:
    return Queues()


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
