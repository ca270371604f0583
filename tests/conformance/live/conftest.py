"""A server of two workers over four stores whose entities come and go while it runs.

The fixtures `server` and `client` have the names of those one folder up and stand in for them.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from azure.servicebus import ServiceBusClient

from support.json_admin import JsonAdmin
from support.server import ServerProcess

_NUMBERS = itertools.count()


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory: Path = tmp_path_factory.mktemp("live")
    config = directory / "namespace.toml"
    config.write_text("", encoding="utf-8")
    with ServerProcess(directory, config, "--workers", "2", "--stores", "4", "--faults") as process:
        yield process


@pytest.fixture
def admin(server: ServerProcess) -> JsonAdmin:
    return JsonAdmin(server)


@pytest.fixture
def name() -> str:
    """A name that no entity has."""
    return f"live-{next(_NUMBERS)}"


@pytest.fixture
def client(server: ServerProcess) -> Iterator[ServiceBusClient]:
    """A stock client that shows the first error instead of trying again."""
    with ServiceBusClient.from_connection_string(
        server.connection_string, retry_total=0
    ) as connected:
        yield connected


@pytest.fixture
def patient(server: ServerProcess) -> Iterator[ServiceBusClient]:
    """A stock client that tries once more.

    A sender that stands idle reads nothing. It finds its link detached when it sends next, takes
    that for a broken connection, and hears the reason when it attaches again."""
    with ServiceBusClient.from_connection_string(
        server.connection_string, retry_total=1, retry_backoff_factor=0.01
    ) as connected:
        yield connected
