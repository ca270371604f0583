"""Without a cluster: everything that takes part is killed; every message is written once.

What `make test` runs of this is in cluster/test_kills.py.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from spark.bus import Bus
from spark.killing import Story, kill, killable_bus

pytestmark = [pytest.mark.group("spark"), pytest.mark.xdist_group("spark")]


@pytest.fixture
def own_bus(tmp_path: Path) -> Iterator[Bus]:
    with killable_bus(tmp_path) as bus:
        yield bus


@pytest.mark.slow
def test_worker_daemon_driver_and_bus_are_killed(own_bus: Bus, tmp_path: Path) -> None:
    def kill_daemon(worker: int) -> None:
        kill(parent(worker))

    Story(own_bus, tmp_path, "local[2,4]", 20_000, 2_000, kill_daemon).run()


def parent(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("PPid:")[1].split()[0])
