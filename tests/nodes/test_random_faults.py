"""Constant traffic and faults by lot: whatever happens, in whatever order, promises are kept.

PARTIBUS_SEED=N repeats a schedule; each run prints its own.
"""

import os
import random
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.nodes.traffic import Traffic
from support.wall_clock import WallClock

pytestmark = [
    pytest.mark.group("postgres"),
    pytest.mark.group("network"),
    pytest.mark.group("wall-clock"),
]
KEYS = (None, "a", "b", "c", "d", "e", "f", "g")


def live_through(directory: Path, count: int) -> None:
    """So many faults, one after the other, under traffic of three kinds."""
    from support.nodes.fault_injection import Faults
    from support.nodes.networked_cluster import networked_cluster

    seed = int(os.environ.get("PARTIBUS_SEED") or random.SystemRandom().randrange(2**32))
    print(f"run it again with PARTIBUS_SEED={seed}", flush=True)
    clocks = []
    for number in range(3):
        place = directory / f"clock-{number}"
        place.mkdir()
        clocks.append(WallClock(place))
    environments = [clock.environment for clock in clocks]
    with (
        networked_cluster(directory, 3, 2, environments=environments) as net,
        ExitStack() as stack,
    ):
        faults = Faults(net, clocks)
        traffics = [
            stack.enter_context(traffic)
            for traffic in (
                Traffic("parts", net.nodes, net.nodes[::-1], keys=KEYS),
                Traffic("plain", net.nodes[::-1], net.nodes, keys=("one",)),
                Traffic("sessions", net.nodes, net.nodes, keys=("s", "t"), sessions=True),
            )
        ]
        for fault in faults.schedule(seed, count):
            for traffic in traffics:
                traffic.flows(5)
            faults.run(fault)
        for traffic in traffics:
            traffic.flows(5)
            traffic.check()
        net.check_writers()


@pytest.mark.timeout(900)
def test_a_few_random_faults(tmp_path: Path) -> None:
    live_through(tmp_path, 3)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_many_random_faults(tmp_path: Path) -> None:
    live_through(tmp_path, 27)
