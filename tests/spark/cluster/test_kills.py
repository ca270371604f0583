"""On a cluster: a worker, an executor, the driver and the bus are killed, each within a batch."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cluster import Cluster, descendants

from spark.bus import Bus
from spark.killing import Story, killable_bus

pytestmark = [pytest.mark.group("spark"), pytest.mark.xdist_group("cluster")]


@pytest.fixture
def own_bus(tmp_path: Path) -> Iterator[Bus]:
    with killable_bus(tmp_path) as bus:
        yield bus


def executor_killer(cluster: Cluster) -> Callable[[int], None]:
    """Kills the JVM of the executor that a task belongs to."""

    def kill(task: int) -> None:
        (victim,) = [pid for pid in cluster.executors() if task in descendants(pid)]
        cluster.kill_executor(victim)

    return kill


def test_worker_executor_driver_and_bus_are_killed(
    cluster: Cluster, own_bus: Bus, tmp_path: Path
) -> None:
    kill = executor_killer(cluster)
    Story(own_bus, tmp_path, cluster.url, 18_000, 3_000, kill).run()


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_worker_executor_driver_and_bus_are_killed_with_a_million_messages(
    cluster: Cluster, own_bus: Bus, tmp_path: Path
) -> None:
    kill = executor_killer(cluster)
    Story(own_bus, tmp_path, cluster.url, 1_000_000, 100_000, kill).run()
