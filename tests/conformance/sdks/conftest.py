"""A server for the clients of other languages, and fresh entities for each test.

The fixtures `server` and `queue` have the names of those one folder up and stand in for them.
"""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conformance.sdks.drivers import BuiltProgram, JavaProgram, Program, Sdk
from conformance.sdks.operations import CLIENTS
from support.groups import GO_PROGRAM, RUST_PROGRAM
from support.json_admin import JsonAdmin
from support.server import ServerProcess

Fresh = Callable[..., str]


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory: Path = tmp_path_factory.mktemp("sdks")
    config = directory / "namespace.toml"
    config.write_text("".join(map(_topic, CLIENTS)), encoding="utf-8")
    with ServerProcess(directory, config) as process:
        yield process


def colours(client: str) -> str:
    """A topic for each client, whose subscription `blue` wants one colour."""
    return f"colours-{client.replace(' ', '-')}"


def _topic(client: str) -> str:
    return (
        f'[[topic]]\nname = "{colours(client)}"\n[[topic.subscription]]\nname = "blue"\n'
        '[[topic.subscription.rule]]\nname = "blue"\nsql_filter = "colour = \'blue\'"\n'
    )


@pytest.fixture(scope="package")
def _numbers() -> Iterator[int]:
    return itertools.count()


@pytest.fixture
def fresh(server: ServerProcess, _numbers: Iterator[int]) -> Fresh:
    """Creates an entity that no other test uses: `fresh("queue", lock_duration="PT1S")`."""
    admin = JsonAdmin(server)

    def create(kind: str = "queue", **properties: object) -> str:
        name = f"{kind}-{next(_numbers)}"
        admin.create(name, kind, **properties)
        return name

    return create


@pytest.fixture
def queue(fresh: Fresh) -> str:
    """A queue with every default of the service."""
    return fresh()


@pytest.fixture(scope="package")
def programs(
    server: ServerProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Program]]:
    """By the group of a client: the program of its language."""
    directory = tmp_path_factory.mktemp("java")
    with JavaProgram(directory, server.ready.ca) as java:
        ca = server.ready.ca
        yield {
            "go": BuiltProgram(GO_PROGRAM, ca),
            "java-sdk": java,
            "rust": BuiltProgram(RUST_PROGRAM, ca),
        }


@pytest.fixture
def sdk(request: pytest.FixtureRequest, server: ServerProcess, programs: dict[str, Program]) -> Sdk:
    client: str = request.param
    program = programs[CLIENTS[client]]
    return Sdk(client, program, server.connection_string, server.ready.amqp_port)
