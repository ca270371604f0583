"""The wall clocks of nodes are minutes apart, and are set while the nodes run."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage

from adversity.waiting import wait_until
from support.nodes.traffic import Traffic
from support.wall_clock import WallClock

if TYPE_CHECKING:
    from support.nodes.cluster import ClusterNode
    from support.postgres import PostgresServer

pytestmark = [
    pytest.mark.group("postgres"),
    pytest.mark.group("wall-clock"),
    pytest.mark.timeout(900),
]
MINUTE_S = 60
KEYS = (None, "a", "b", "c", "d")


def new_clock(directory: Path, name: str, seconds: int) -> WallClock:
    place = directory / name
    place.mkdir()
    clock = WallClock(place)
    clock.set_ahead(seconds)
    return clock


def has_expired(node: "ClusterNode", queue: str) -> bool:
    """Whether nothing is left to be received."""
    with (
        ServiceBusClient.from_connection_string(node.connection_string) as client,
        client.get_queue_receiver(queue) as receiver,
    ):
        return not receiver.peek_messages(1)


def test_clocks_that_are_minutes_apart_lose_neither_leases_nor_messages(
    tmp_path: Path, postgres: "PostgresServer"
) -> None:
    """One is two minutes ahead of the database, one is two minutes behind, and both jump. The SDK
    holds the end of a lock against its own clock, so locks last longer than that."""
    from support.nodes.chains import check_chains
    from support.nodes.cluster import new_cluster

    cluster = new_cluster(tmp_path, postgres, 2)
    ahead, behind = cluster.nodes
    clocks = [new_clock(tmp_path, "ahead", 2 * MINUTE_S)]
    clocks.append(new_clock(tmp_path, "behind", -2 * MINUTE_S))
    for node, clock in zip(cluster.nodes, clocks, strict=True):
        node.environment = clock.environment
    with cluster:
        owners = cluster.owners()
        with (
            Traffic("long-locks", ahead, behind, keys=KEYS) as traffic,
            Traffic("long-sessions", behind, ahead, keys=["s", "t"], sessions=True) as sessions,
        ):
            traffic.flows()
            sessions.flows()
            offsets = [node.log.stat().st_size for node in cluster.nodes]
            for clock, seconds in zip(clocks, (-1 * MINUTE_S, 3 * MINUTE_S), strict=True):
                clock.set_ahead(seconds)
            for node, offset in zip(cluster.nodes, offsets, strict=True):
                wait_until(
                    lambda n=node, o=offset: "the system clock was set" in n.log_text(o),
                    "it has seen that its clock was set",
                )
            traffic.flows()
            sessions.flows()
            assert cluster.owners() == owners, "leases go by the database and by time that passes"
            traffic.check()
            sessions.check()
        logs = "".join(node.log_text() for node in cluster.nodes)
        assert "its lease was lost" not in logs
    check_chains(cluster.database)


@pytest.mark.slow
def test_a_time_to_live_is_counted_by_the_clock_of_the_lane_s_node(
    tmp_path: Path, postgres: "PostgresServer"
) -> None:
    """A message lives for ten minutes, whichever node takes it; when its lane moves to a
    node whose clock is twenty minutes ahead, it has expired."""
    from support.nodes.cluster import new_cluster

    cluster = new_cluster(tmp_path, postgres, 2)
    right, ahead = cluster.nodes
    ahead.environment = new_clock(tmp_path, "ahead", 20 * MINUTE_S).environment
    with cluster:
        cluster.ask(lambda at: at.drain(ahead.number, 60))
        with (
            ServiceBusClient.from_connection_string(ahead.connection_string) as client,
            client.get_queue_sender("plain") as sender,
        ):
            sender.send_messages(ServiceBusMessage("x", time_to_live=10 * MINUTE_S))
        assert not has_expired(right, "plain")
        cluster.ask(lambda at: at.resume(ahead.number))
        cluster.ask(lambda at: at.drain(right.number, 60))
        wait_until(lambda: has_expired(right, "plain"), "it has expired on the other node")
