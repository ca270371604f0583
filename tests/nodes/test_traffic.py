"""Any node serves any client, wherever a lane is."""

from typing import TYPE_CHECKING

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.management import ServiceBusAdministrationClient

from support.json_admin import JsonAdmin

if TYPE_CHECKING:
    from support.nodes.cluster import ClusterNode, TestCluster

pytestmark = pytest.mark.group("postgres")


def send(node: "ClusterNode", queue: str, *bodies: str) -> None:
    with (
        ServiceBusClient.from_connection_string(node.connection_string) as client,
        client.get_queue_sender(queue) as sender,
    ):
        for body in bodies:
            sender.send_messages(ServiceBusMessage(body))


def receive(node: "ClusterNode", queue: str, count: int) -> set[str]:
    found: set[str] = set()
    with (
        ServiceBusClient.from_connection_string(node.connection_string) as client,
        client.get_queue_receiver(queue, max_wait_time=20) as receiver,
    ):
        for message in receiver:
            found.add(str(message))
            receiver.complete_message(message)
            if len(found) == count:
                break
    return found


def test_lanes_are_spread_over_all_nodes(shared: "TestCluster") -> None:
    owners = shared.owners()
    assert len(owners) == 6 and len(set(owners.values())) == 3


def test_created_here_sent_there_received_elsewhere(
    shared: "TestCluster", monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b, c = shared.nodes
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(a.ready.ca))
    with ServiceBusAdministrationClient.from_connection_string(a.connection_string) as admin:
        admin.create_queue("made", enable_partitioning=True)
    bodies = {str(number) for number in range(60)}
    send(b, "made", *bodies)
    assert receive(c, "made", 60) == bodies


def test_each_fragment_answers_through_each_node(shared: "TestCluster") -> None:
    """A queue of one fragment has one owner; the two others reach it over TLS."""
    bodies = []
    for number, node in enumerate(shared.nodes):
        send(node, "plain", str(number))
        bodies.append(str(number))
    for node in shared.nodes:
        assert receive(node, "plain", 1) <= set(bodies)


def test_sessions_and_topics_through_other_nodes(shared: "TestCluster") -> None:
    a, b, c = shared.nodes
    with ServiceBusClient.from_connection_string(a.connection_string) as client:
        with client.get_queue_sender("sessions") as sender:
            sender.send_messages([ServiceBusMessage(str(n), session_id="s") for n in range(5)])
        with client.get_topic_sender("news") as sender:
            sender.send_messages(ServiceBusMessage("news"))
    with (
        ServiceBusClient.from_connection_string(b.connection_string) as client,
        client.get_queue_receiver("sessions", session_id="s") as receiver,
    ):
        found = receiver.receive_messages(5, max_wait_time=20)
        receiver.session.set_state(b"half way")
        assert [str(message) for message in found] == [str(n) for n in range(len(found))]
    with ServiceBusClient.from_connection_string(c.connection_string) as client:
        with client.get_queue_receiver("sessions", session_id="s") as receiver:
            assert receiver.session.get_state() == b"half way"
        with client.get_subscription_receiver("news", "all") as receiver:
            (message,) = receiver.receive_messages(1, max_wait_time=20)
            assert str(message) == "news"
            receiver.complete_message(message)


def test_every_node_shows_the_whole(shared: "TestCluster") -> None:
    shown = [JsonAdmin(node).stores() for node in shared.nodes]
    assert [[store["state"] for store in stores] for stores in shown] == [["up"] * 6] * 3
