"""A database that is a pair kept by Patroni fails over: its lanes come back with all they had."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from adversity.waiting import wait_until
from support.json_admin import JsonAdmin
from support.nodes.traffic import Traffic

if TYPE_CHECKING:
    from support.nodes.network import Network
    from support.nodes.networked_cluster import NetworkedCluster
    from support.nodes.patroni import PatroniPair

pytestmark = [
    pytest.mark.group("postgres"),
    pytest.mark.group("network"),
    pytest.mark.group("patroni"),
    pytest.mark.timeout(900),
]
KEYS = (None, "a", "b", "c", "d", "e", "f")


@pytest.fixture
def network() -> Iterator["Network"]:
    from support.nodes.network import Network

    with Network() as made:
        yield made


@pytest.fixture
def pair(network: "Network") -> Iterator["PatroniPair"]:
    from support.nodes.patroni import patroni_pair

    with patroni_pair(network) as made:
        yield made


def states(net: "NetworkedCluster") -> list[str]:
    return [store["state"] for store in JsonAdmin(net.nodes[0]).stores()]


def is_whole(net: "NetworkedCluster") -> bool:
    """Whether every lane is served again."""
    return states(net) == ["up"] * 6


@pytest.mark.rule("PAV-1", "SEED-40")
def test_the_lanes_of_a_database_that_fails_over_come_back(
    tmp_path: Path, network: "Network", pair: "PatroniPair"
) -> None:
    """Its primary crashes. Lanes 0, 2 and 4 are in it; the others are served all the time."""
    from support.nodes.networked_cluster import networked_cluster

    with networked_cluster(tmp_path, 2, network=network, first=pair.dsn) as net:
        one, two = net.nodes
        with (
            Traffic("parts", one, two, keys=KEYS) as traffic,
            Traffic("parts", two, one, books=traffic.books) as keyless,
        ):
            traffic.flows()
            lost = pair.settle()
            lost.crash()
            pair.promoted(lost)
            keyless.flows()
            wait_until(lambda: is_whole(net), "all lanes are served again")
            traffic.flows(60)
            traffic.check(keyless)
        net.check_writers()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["killed", "cut off"])
def test_the_machine_of_the_primary_is_lost(
    tmp_path: Path, network: "Network", pair: "PatroniPair", how: str
) -> None:
    """Patroni promotes the other when the lease of the primary has ended, which takes 20 s."""
    from support.nodes.networked_cluster import networked_cluster

    with networked_cluster(tmp_path, 2, network=network, first=pair.dsn) as net:
        one, two = net.nodes
        with (
            Traffic("parts", one, two, keys=KEYS) as traffic,
            Traffic("parts", two, one, books=traffic.books) as keyless,
        ):
            traffic.flows()
            lost = pair.settle()
            if how == "killed":
                lost.kill()
            else:
                rest = [end for end in network.machines if end is not lost.machine]
                network.cut(lost.machine, network.test, *rest)
            keyless.flows()
            pair.promoted(lost)
            wait_until(lambda: is_whole(net), "all lanes are served again")
            traffic.flows(60)
            traffic.check(keyless)
        net.check_writers()
