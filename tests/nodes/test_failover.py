"""Nodes are killed, frozen, drained and restarted under traffic: nothing acknowledged is lost."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from adversity.waiting import wait_until
from support.nodes.traffic import Traffic

if TYPE_CHECKING:
    from support.nodes.cluster import TestCluster

pytestmark = pytest.mark.group("postgres")

NewCluster = Callable[[int], "TestCluster"]


def test_a_killed_node_s_lanes_move(new_cluster: NewCluster) -> None:
    cluster = new_cluster(3)
    victim, sender, receiver = cluster.nodes
    lost = victim.number
    with Traffic("parts", sender, receiver) as traffic:
        traffic.flows()
        victim.sigkill()
        wait_until(
            lambda: len(owners := cluster.owners()) == 6 and lost not in owners.values(),
            "its lanes have other owners",
        )
        traffic.flows()
        traffic.check()


def test_a_frozen_node_is_fenced(new_cluster: NewCluster) -> None:
    cluster = new_cluster(2)
    frozen, other = cluster.nodes
    number = frozen.number
    with (
        Traffic("parts", other, other) as traffic,
        Traffic("parts", frozen, frozen, books=traffic.books) as own,
    ):
        traffic.flows()
        frozen.pause()
        wait_until(
            lambda: set(cluster.owners().values()) == {other.number}, "the other has all lanes"
        )
        traffic.flows()
        offset = frozen.log.stat().st_size
        frozen.resume()
        wait_until(lambda: "its lease was lost" in frozen.log_text(offset), "it has noticed")
        wait_until(lambda: number in cluster.owners().values(), "it serves again")
        traffic.flows()
        traffic.check(own)


def test_a_drained_node_has_no_lane_and_serves_on(new_cluster: NewCluster) -> None:
    cluster = new_cluster(2)
    drained, other = cluster.nodes
    with Traffic("parts", drained, drained) as traffic:
        traffic.flows()
        cluster.ask(lambda at: at.drain(drained.number, 60))
        assert set(cluster.owners().values()) == {other.number}
        traffic.flows()
        cluster.ask(lambda at: at.resume(drained.number))
        cluster.settle()
        assert set(cluster.owners().values()) == {drained.number, other.number}
        traffic.flows()
        traffic.check()


def test_a_rolling_restart_fails_no_keyless_send(new_cluster: NewCluster) -> None:
    cluster = new_cluster(3)
    *restarted, stays = cluster.nodes
    with Traffic("parts", stays, stays) as traffic:
        traffic.flows()
        for node in restarted:
            assert node.stop() == 0
            node.start()
            cluster.settle()
            traffic.flows()
        traffic.check()
        assert not traffic.failed_sends


def test_an_evicted_node_ends(new_cluster: NewCluster) -> None:
    cluster = new_cluster(2)
    evicted, other = cluster.nodes
    cluster.ask(lambda at: at.evict(evicted.number, force=True))
    assert evicted.wait() == 0
    everything = dict.fromkeys(range(6), other.number)
    wait_until(lambda: cluster.owners() == everything, "the other has all lanes")
