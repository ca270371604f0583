"""A server for the tests of the REST data plane: queues whole, in partitions and with sessions.

The fixtures `server` and `queue` have the names of those one folder up and stand in for them here.
"""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conformance.rest.http_bus import HttpBus
from support.server import ServerProcess

COUNT = 100
KINDS = {
    "whole": "",
    "parts": "enable_partitioning = true\n",
    "brief": 'lock_duration = "PT1S"\n',
    "fragile": "max_delivery_count = 1\n",
    "sessions": "requires_session = true\n",
    "once": "requires_duplicate_detection = true\n",
    "disabled": 'status = "ReceiveDisabled"\n',
    "closed": 'status = "SendDisabled"\n',
}
POLICIES = """
[[policy]]
name = "Sender"
key = "sender-key"
rights = ["Send"]

[[policy]]
name = "Listener"
key = "listener-key"
rights = ["Listen"]
"""


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory: Path = tmp_path_factory.mktemp("rest")
    config = directory / "namespace.toml"
    queues = [
        f'[[queue]]\nname = "{kind}-{number}"\n{properties}'
        for kind, properties in KINDS.items()
        for number in range(COUNT)
    ]
    config.write_text("\n".join([*queues, POLICIES]))
    with ServerProcess(directory, config, "--stores", "2", "--faults") as process:
        yield process


@pytest.fixture(scope="package")
def fresh() -> Callable[[str], str]:
    """Hands out queues of a kind, each once."""
    numbers = {kind: itertools.count() for kind in KINDS}

    def take(kind: str) -> str:
        number = next(numbers[kind])
        assert number < COUNT, f"declare more queues of the kind {kind!r}"
        return f"{kind}-{number}"

    return take


@pytest.fixture(params=["whole", "parts"])
def queue(request: pytest.FixtureRequest, fresh: Callable[[str], str]) -> str:
    return fresh(request.param)


@pytest.fixture
def bus(server: ServerProcess) -> HttpBus:
    return HttpBus(server.ready.http_port)
