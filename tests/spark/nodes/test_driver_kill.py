"""A driver is killed in the middle of a batch, as is the node that it reads from."""

from pathlib import Path

import pytest

from spark.killing import Driver
from spark.nodes.stand import FRAGMENTS, Stand

pytestmark = [
    pytest.mark.group("spark"),
    pytest.mark.group("postgres"),
    pytest.mark.xdist_group("spark"),
    pytest.mark.timeout(900),
    pytest.mark.slow,
]

COUNT = 12_000


def test_an_owner_and_the_driver_are_killed(stand: Stand, tmp_path: Path) -> None:
    """Every message is in the files once, and nothing stays claimed."""
    queue = stand.queue()
    for first in range(0, COUNT, 1000):
        stand.fill(queue, 1000, first)

    def driver(*held: int) -> Driver:
        return Driver(stand.balancer, "local[2,4]", queue, tmp_path, COUNT // 6, held=held)

    with driver(1, 2) as first_run:
        first_run.held(1)
        victim = stand.owner_of(queue, 0)
        number = victim.number
        victim.sigkill()
        first_run.release(1)
        stand.await_moved(number)
        victim.start()
        first_run.held(2)
    with driver(4) as second_run:
        second_run.held(4)
        stand.drain(stand.owner_of(queue, 0))
        second_run.release(4)
        counts = second_run.until("DONE").split()[1:]
    assert list(map(int, counts)) == [COUNT, COUNT, FRAGMENTS]
    stand.await_left(queue, 0, 0, 0)
