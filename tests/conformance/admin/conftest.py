"""A server to administer, reached by the stock clients on each of its ports.

All that the clients are given is the development CA, by the variable that their HTTP library
reads. The fixture `server` stands in for the one of the folder above.
"""

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
from azure.servicebus.management import ServiceBusAdministrationClient

from support.server import ServerProcess

PORTS: Final = ("amqp_port", "http_port")
STORES: Final = 2

NAMESPACE: Final = """
[[policy]]
name = "NamespaceListen"
key = "namespace-listen-key"
rights = ["Listen"]

[[policy]]
name = "NamespaceSend"
key = "namespace-send-key"
rights = ["Send"]

[[queue]]
name = "guarded"

[[queue.policy]]
name = "GuardedManage"
key = "guarded-manage-key"
rights = ["Manage", "Send", "Listen"]

[[queue]]
name = "target"

[[topic]]
name = "target-topic"
"""

Fresh = Callable[[str], str]


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory: Path = tmp_path_factory.mktemp("admin")
    config = directory / "namespace.toml"
    config.write_text(NAMESPACE, encoding="utf-8")
    with ServerProcess(directory, config, "--stores", str(STORES)) as process:
        yield process


@pytest.fixture(autouse=True)
def _trust(server: ServerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a user of the clients does: name the CA.

    For each test: the tests of another folder, with another CA, may run between two of these.
    """
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(server.ready.ca))


@pytest.fixture(scope="package")
def environment(server: ServerProcess) -> dict[str, str]:
    """The same for Node."""
    return dict(os.environ) | {"NODE_EXTRA_CA_CERTS": str(server.ready.ca)}


def connection_string_at(server: ServerProcess, port_name: str) -> str:
    """The READY line's connection string, with one of the ports."""
    port, chosen = server.ready.amqp_port, getattr(server.ready, port_name)
    return server.connection_string.replace(f":{port};", f":{chosen};")


@pytest.fixture(params=PORTS)
def connection(request: pytest.FixtureRequest, server: ServerProcess) -> str:
    """The emulator's form of connection string, for each port."""
    return connection_string_at(server, request.param)


@pytest.fixture
def admin(server: ServerProcess) -> Iterator[ServiceBusAdministrationClient]:
    """The stock client, showing the first error instead of trying again."""
    with ServiceBusAdministrationClient.from_connection_string(
        server.connection_string, retry_total=0
    ) as client:
        yield client


@pytest.fixture(scope="package")
def _numbers() -> Iterator[int]:
    return itertools.count()


@pytest.fixture
def fresh(_numbers: Iterator[int]) -> Fresh:
    """Names that no other test uses."""
    return lambda word: f"{word}-{next(_numbers)}"
