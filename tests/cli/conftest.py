"""A server that may be broken, and the command line that breaks and looks at it.

One server with four stores serves all tests here. Each test takes queues of its own, and
whatever it broke is whole again when it ends.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from azure.servicebus import ServiceBusClient

from adversity.waiting import wait_until
from cli.command import FRAGMENTS, QUEUES, STORES, Partibus
from support.collected import tests_below
from support.garbage import collect_garbage
from support.server import ServerProcess

HERE = Path(__file__).parent


def write_namespace(path: Path) -> Path:
    blocks = []
    for number in range(QUEUES):
        blocks.append(f'[[queue]]\nname = "plain-{number}"\n')
        blocks.append(
            f'[[queue]]\nname = "parted-{number}"\nenable_partitioning = true\n'
            f"partition_count = {FRAGMENTS}\n"
        )
    blocks.append('[[policy]]\nname = "Reader"\nkey = "reader-key"\nrights = ["Listen"]\n')
    path.write_text("\n".join(blocks), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory: Path = tmp_path_factory.mktemp("cli")
    config = write_namespace(directory / "namespace.toml")
    with ServerProcess(directory, config, "--faults", "--stores", str(STORES)) as process:
        yield process


@pytest.fixture
def partibus(server: ServerProcess) -> Iterator[Partibus]:
    command = Partibus(server.connection_string)
    yield command
    command("fault", "clear")
    wait_until(lambda: set(command.store_states()) == {"up"}, "all stores are up")


@pytest.fixture
def client(server: ServerProcess) -> Iterator[ServiceBusClient]:
    """A stock client that shows the first error instead of trying again."""
    with ServiceBusClient.from_connection_string(
        server.connection_string, retry_total=0
    ) as connected:
        yield connected


_numbers = itertools.count()


@pytest.fixture
def queue() -> str:
    return f"plain-{next(_numbers)}"


@pytest.fixture
def parted() -> str:
    """A partitioned queue; fragment i lies in store i modulo 4, or shifted by some stores."""
    return f"parted-{next(_numbers)}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in tests_below(HERE, items):
        item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))


@pytest.fixture(autouse=True)
def _abandoned_sockets() -> Iterator[None]:
    """The stock client lets go of a broken connection without closing its socket."""
    yield
    collect_garbage()
