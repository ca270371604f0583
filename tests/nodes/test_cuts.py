"""Packets vanish between nodes, databases and clients: nobody waits for long, nothing is lost."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from adversity.waiting import wait_until
from support.nodes.traffic import Traffic

if TYPE_CHECKING:
    from support.nodes.networked_cluster import NetworkedCluster

pytestmark = [
    pytest.mark.group("postgres"),
    pytest.mark.group("network"),
    pytest.mark.timeout(900),
]


def all_lanes_on(net: "NetworkedCluster", *numbers: int) -> bool:
    owners = net.cluster.owners()
    return len(owners) == 6 and set(owners.values()) == set(numbers)


def test_a_node_cut_off_from_the_database_loses_its_lanes(tmp_path: Path) -> None:
    from support.nodes.networked_cluster import networked_cluster

    with networked_cluster(tmp_path, 2) as net:
        cut, other = net.nodes
        keys = (None, "a", "b", "c", "d")
        with (
            Traffic("parts", other, other, keys=keys) as traffic,
            Traffic("parts", cut, cut, books=traffic.books) as own,
        ):
            traffic.flows()
            own.flows()
            offset = cut.log.stat().st_size
            net.network.cut(net.machine_of(cut), net.database_machines[0])
            wait_until(lambda: all_lanes_on(net, other.number), "the other has all lanes")
            wait_until(
                lambda: cut.log_text(offset).count("is no longer served here") == 3,
                "it has given its lanes up",
            )
            traffic.flows()
            own.flows()  # it asks the other
            net.network.join(net.machine_of(cut), net.database_machines[0])
            wait_until(lambda: all_lanes_on(net, cut.number, other.number), "it has lanes again")
            traffic.flows()
            traffic.check(own)
        net.check_writers()


def test_nodes_that_are_cut_off_from_each_other_serve_what_they_have(tmp_path: Path) -> None:
    from support.nodes.networked_cluster import networked_cluster

    with networked_cluster(tmp_path, 2) as net:
        one, two = net.nodes
        with (
            Traffic("parts", one, one) as traffic,
            Traffic("parts", two, two, books=traffic.books) as other,
        ):
            traffic.flows()
            other.flows()
            net.network.cut(*net.machines)
            for node in (one, two):
                wait_until(lambda n=node: "considered lost" in n.log_text(), "it has noticed")
            traffic.flows()
            other.flows()
            assert all_lanes_on(net, one.number, two.number), "they go by the database"
            net.network.join(*net.machines)
            traffic.flows()
            traffic.check(other)
        net.check_writers()


@pytest.mark.slow
def test_a_node_whose_cable_is_pulled_out(tmp_path: Path) -> None:
    """Nobody hears of it any more: neither the database, nor the others, nor its clients."""
    from support.nodes.networked_cluster import networked_cluster

    with networked_cluster(tmp_path, 3) as net:
        gone, *others = net.nodes
        machine = net.machine_of(gone)
        rest = [end for end in net.network.machines if end is not machine]
        keys = (None, "a", "b", "c", "d")
        with (
            Traffic("parts", [gone, *others], [gone, *others], keys=keys) as traffic,
            Traffic("sessions", others, others, keys=["s", "t"], sessions=True) as sessions,
        ):
            traffic.flows()
            sessions.flows()
            net.network.cut(machine, net.network.test, *rest)
            wait_until(
                lambda: all_lanes_on(net, *(node.number for node in others)),
                "its lanes have other owners",
            )
            traffic.flows()
            sessions.flows()
            net.network.join(machine, net.network.test, *rest)
            wait_until(
                lambda: all_lanes_on(net, *(node.number for node in net.nodes)), "it is back"
            )
            traffic.flows()
            sessions.flows()
            traffic.check()
            sessions.check()
        net.check_writers()


@pytest.mark.rule("PAV-1", "SEED-40")
def test_a_node_cut_off_from_one_of_two_databases_gives_its_lanes_to_another(
    tmp_path: Path,
) -> None:
    """It keeps its leases, which are in the other one; lanes 1, 3 and 5 are in the lost one."""
    from support.nodes.networked_cluster import networked_cluster

    with networked_cluster(tmp_path, 2, 2) as net:
        cut, other = net.nodes
        keys = (None, "a", "b", "c", "d")
        ends = net.machine_of(cut), net.database_machines[1]
        with Traffic("parts", cut, other, keys=keys) as traffic:
            traffic.flows()
            net.network.cut(*ends)
            wait_until(
                lambda: {net.cluster.owners().get(lane) for lane in (1, 3, 5)} == {other.number},
                "the other node has them",
            )
            traffic.flows(60)
            assert cut.number in net.cluster.owners().values(), "it has lanes of the other database"
            net.network.join(*ends)
            # Nobody else can take them now.
            net.cluster.ask(lambda at: at.drain(other.number, 60))
            assert all_lanes_on(net, cut.number), "it reaches both again"
            traffic.flows()
            traffic.check()
        net.check_writers()
