"""Servers that tests may maltreat, and seeds that make a run repeatable.

Every test that draws lots takes its seed from PARTIBUS_SEED when that is set; otherwise it
draws one. A failing test shows its seed and what its server logged.
"""

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from adversity.victim import Victim

QUEUES = ("first", "second", "third")
LOCKS_END = "[server]\nkeep_locks = false\n"
"""Whatever way the server ends, all is there to be received afterwards."""
_SERVERS = pytest.StashKey[list[Victim]]()
_SEED = pytest.StashKey[int]()

NewServer = Callable[..., Victim]


def declare_queues(path: Path) -> Path:
    """A namespace of a few queues whose locks outlast every test, but no end of the server."""
    blocks = [
        f'[[queue]]\nname = "{name}"\nlock_duration = "PT5M"\nmax_delivery_count = 1000\n'
        f"max_size_in_megabytes = 81920\n"
        for name in QUEUES
    ]
    path.write_text("\n".join([LOCKS_END, *blocks]), encoding="utf-8")
    return path


@pytest.fixture
def new_server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[NewServer]:
    """Makes servers, each in a directory of its own; those still running are ended."""
    made: list[Victim] = request.node.stash.setdefault(_SERVERS, [])

    def make(directory: Path | None = None, *flags: str) -> Victim:
        place = directory or tmp_path / f"server-{len(made)}"
        place.mkdir(parents=True, exist_ok=True)
        made.append(Victim(place, declare_queues(place / "namespace.toml"), *flags))
        return made[-1]

    yield make
    for server in made:
        if server.is_started:
            server.sigkill()


@pytest.fixture
def server(new_server: NewServer) -> Victim:
    """A running server on an empty data directory."""
    process = new_server()
    process.start()
    return process


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    drawn = int(os.environ.get("PARTIBUS_SEED") or random.SystemRandom().randrange(2**32))
    request.node.stash[_SEED] = drawn
    return drawn


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[Any]:
    report = yield
    if report.when == "call" and report.failed:
        if _SEED in item.stash:
            replay = f"PARTIBUS_SEED={item.stash[_SEED]}"
            report.sections.append(("Seed", f"run it again with {replay}"))
        for server in item.stash.get(_SERVERS, []):
            if server.log.exists():
                report.sections.append((f"Server log {server.log.parent}", server.log_text()))
    return report
