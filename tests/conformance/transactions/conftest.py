"""A server of its own for the tests of transactions, and fresh queues.

The fixtures `server`, `queues` and `queue` have the names of those one folder up and stand in
for them here.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.transactions.namespace import Queues, write_kinds
from support.server import ServerProcess


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory: Path = tmp_path_factory.mktemp("transactions")
    with ServerProcess(directory, write_kinds(directory / "namespace.toml")) as process:
        yield process


@pytest.fixture(scope="package")
def queues() -> Queues:
    return Queues()


@pytest.fixture
def queue(queues: Queues) -> str:
    """A queue with every default of the service."""
    return queues.fresh()
