"""A server with a queue, a session queue and a topic for each test of the .NET frames."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.server import ServerProcess

COUNT = 30
_numbers = itertools.count()


def _namespace(path: Path) -> Path:
    blocks = []
    for number in range(COUNT):
        blocks.append(f'[[queue]]\nname = "plain-{number}"\n')
        blocks.append(f'[[queue]]\nname = "sessions-{number}"\nrequires_session = true\n')
        topic = f'[[topic]]\nname = "topic-{number}"\n\n[[topic.subscription]]\nname = "all"\n'
        blocks.append(topic)
    path.write_text("\n".join(blocks), encoding="utf-8")
    return path


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory: Path = tmp_path_factory.mktemp("dotnet")
    with ServerProcess(directory, _namespace(directory / "namespace.toml")) as process:
        yield process


@pytest.fixture
def number() -> int:
    """Names entities that no other test uses."""
    return next(_numbers)


@pytest.fixture
def queue(number: int) -> str:
    return f"plain-{number}"


@pytest.fixture
def sessions(number: int) -> str:
    return f"sessions-{number}"


@pytest.fixture
def topic(number: int) -> str:
    return f"topic-{number}"
