"""Namespaces on one server, told apart by the name of the key, whatever the client speaks."""

import asyncio
import datetime
import http.client
from dataclasses import replace

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage, TransportType
from azure.servicebus.exceptions import (
    MessagingEntityNotFoundError,
    ServiceBusAuthenticationError,
    ServiceBusAuthorizationError,
    ServiceBusConnectionError,
    ServiceBusError,
)
from azure.servicebus.management import ServiceBusAdministrationClient

from partibus.client.bus import Bus
from partibus.client.cbs import sas_token
from partibus.client.connection import BusClient
from partibus.client.connection_string import parse_connection_string
from partibus.client.errors import RemoteError
from partibus.testing import BusRefused, Namespace, Server, expect


def client_of(namespace: Namespace, **options: object) -> ServiceBusClient:
    return ServiceBusClient.from_connection_string(
        namespace.connection_string, retry_total=0, **options
    )


def send(namespace: Namespace, queue: str, body: str, **options: object) -> None:
    with client_of(namespace, **options) as client, client.get_queue_sender(queue) as sender:
        sender.send_messages(ServiceBusMessage(body))


def test_two_namespaces_have_queues_of_the_same_name(
    kit_server: Server, namespace: Namespace
) -> None:
    with kit_server.namespace() as other:
        for one in (namespace, other):
            one.create_queue("orders")
            send(one, "orders", f"for {one.name}")
        namespace.assert_messages("orders", [f"for {namespace.name}"])
        other.assert_messages("orders", [f"for {other.name}"])
    assert kit_server.own.entities() == []


def test_an_entity_of_another_namespace_is_not_there(
    kit_server: Server, namespace: Namespace
) -> None:
    namespace.create_queue("mine")
    with kit_server.namespace() as other, pytest.raises(MessagingEntityNotFoundError):
        send(other, "mine", "x")


def test_over_websocket(namespace: Namespace) -> None:
    namespace.create_queue("orders")
    connection = parse_connection_string(namespace.connection_string)
    port = connection.port
    client = ServiceBusClient.from_connection_string(
        replace(connection, is_emulator=False).text(),
        transport_type=TransportType.AmqpOverWebsocket,
        custom_endpoint_address=f"sb://localhost:{port}",
        connection_verify=namespace.ca_file,
        retry_total=0,
    )
    with client, client.get_queue_sender("orders") as sender:
        sender.send_messages(ServiceBusMessage("by WebSocket"))
    namespace.assert_messages("orders", ["by WebSocket"])


async def test_with_sasl_plain(namespace: Namespace) -> None:
    namespace.create_queue("orders")
    connection = parse_connection_string(namespace.connection_string)
    async with BusClient.connect(
        connection.host, connection.amqp_port, user=connection.policy, password=connection.key
    ) as client:
        sender = await client.sender("orders")
        assert sender is not None


def test_the_administration_client_sees_its_own(kit_server: Server, namespace: Namespace) -> None:
    kit_server.own.reset()
    with ServiceBusAdministrationClient.from_connection_string(
        namespace.connection_string, connection_verify=namespace.ca_file
    ) as admin:
        admin.create_queue("made-by-sdk")
        assert [queue.name for queue in admin.list_queues()] == ["made-by-sdk"]
    assert namespace.entities() == ["made-by-sdk"]
    assert kit_server.own.entities() == []


def test_messages_over_http_are_of_the_key_too(kit_server: Server, namespace: Namespace) -> None:
    namespace.create_queue("orders")
    connection = parse_connection_string(namespace.connection_string)
    url = namespace.http_url
    token = sas_token(f"{url}/orders", connection.policy, connection.key, 4_000_000_000)
    asking = http.client.HTTPConnection(connection.host, connection.port, timeout=30)
    asking.request("POST", "/orders/messages", "by HTTP", {"Authorization": token})
    assert asking.getresponse().status == 201
    asking.close()
    namespace.assert_messages("orders", ["by HTTP"])


def test_a_wrong_key_opens_no_namespace(namespace: Namespace) -> None:
    namespace.create_queue("orders")
    connection = parse_connection_string(namespace.connection_string)
    text = replace(connection, key="another").text()
    client = ServiceBusClient.from_connection_string(text, retry_total=0)
    refusals = (ServiceBusAuthenticationError, ServiceBusAuthorizationError)
    with client, pytest.raises(refusals), client.get_queue_sender("orders"):
        pass


def test_a_deleted_namespace_sends_its_clients_away(kit_server: Server) -> None:
    gone = kit_server.namespace()
    gone.create_queue("orders")
    with client_of(gone) as client, client.get_queue_sender("orders") as sender:
        sender.send_messages(ServiceBusMessage("x"))
        gone.delete()
        with pytest.raises((ServiceBusError, ServiceBusConnectionError)):
            sender.send_messages(ServiceBusMessage("y"))
    assert gone.name not in kit_server.namespaces()
    with pytest.raises(BusRefused, match="is unknown"):
        gone.entities()


def test_a_policy_of_a_namespace_begins_with_its_name(namespace: Namespace) -> None:
    namespace.create_queue("orders")
    name = f"{namespace.name}.reader"
    policy = namespace._control.ask("PUT", f"/policies/{name}", {"rights": ["Listen"]})
    connection = parse_connection_string(namespace.connection_string)
    text = replace(connection, policy=name, key=policy["primary_key"]).text()
    send(namespace, "orders", "x")
    with ServiceBusClient.from_connection_string(text, retry_total=0) as client:
        with client.get_queue_receiver("orders", max_wait_time=10) as receiver:
            assert [str(message) for message in receiver.receive_messages()] == ["x"]
        with pytest.raises(ServiceBusAuthorizationError), client.get_queue_sender("orders"):
            pass


async def test_a_connection_belongs_to_one_namespace(
    kit_server: Server, namespace: Namespace
) -> None:
    namespace.create_queue("orders")
    own = parse_connection_string(kit_server.connection_string)
    async with Bus.open(parse_connection_string(namespace.connection_string)) as bus:
        await bus.authorize("orders")
        bus._place = own
        with pytest.raises(RemoteError, match="belongs to another namespace"):
            await bus.authorize("other")


def test_faults_are_of_one_namespace(kit_server: Server, namespace: Namespace) -> None:
    with kit_server.namespace() as other:
        for one in (namespace, other):
            one.create_queue("orders")
        with namespace.faults.store_down():
            assert [fault["kind"] for fault in namespace.faults.active()] == ["store"]
            assert other.faults.active() == []
            send(other, "orders", "x")
            with pytest.raises(ServiceBusError):
                send(namespace, "orders", "x")
        send(namespace, "orders", "again")
        namespace.assert_messages("orders", ["again"])


def test_closing_connections_is_of_one_namespace(kit_server: Server, namespace: Namespace) -> None:
    with kit_server.namespace() as other:
        for one in (namespace, other):
            one.create_queue("orders")
        with client_of(other) as client, client.get_queue_sender("orders") as sender:
            sender.send_messages(ServiceBusMessage("x"))
            assert namespace.faults.close_connections() == 0
            sender.send_messages(ServiceBusMessage("y"))
            assert other.faults.close_connections() >= 1


def test_a_reset_empties_a_namespace(kit_server: Server, namespace: Namespace) -> None:
    namespace.create_topic("news")
    namespace.create_subscription("news", "all")
    namespace.create_queue("orders")
    namespace.faults.latency("5ms")
    namespace.faults.store_down()
    with kit_server.namespace() as other:
        other.create_queue("orders")
        namespace.reset()
        assert namespace.entities() == []
        assert namespace.faults.active() == []
        assert other.entities() == ["orders"]


def test_names(kit_server: Server) -> None:
    with kit_server.namespace("billing"):
        assert "billing" in kit_server.namespaces()
        with pytest.raises(BusRefused, match="already"):
            kit_server.namespace("billing")
    for name in ("", "a.b", "RootManageSharedAccessKey", "x" * 65, "a b"):
        with pytest.raises(BusRefused):
            kit_server.namespace(name)
    with pytest.raises(BusRefused, match="There is no namespace 'billing'"):
        kit_server.own._control.ask("DELETE", "/namespaces/billing")


def test_a_namespace_makes_no_namespaces(namespace: Namespace) -> None:
    with pytest.raises(BusRefused, match="one namespace"):
        namespace._control.ask("POST", "/namespaces", {})


def test_many_at_once(kit_server: Server) -> None:
    async def work(number: int) -> None:
        def run() -> None:
            with kit_server.namespace() as one:
                one.create_queue("orders")
                send(one, "orders", f"order {number}")
                one.clock.advance("1d")
                one.assert_messages("orders", [expect(f"order {number}", sequence_number=1)])

        await asyncio.to_thread(run)

    async def all_of_them() -> None:
        await asyncio.gather(*(work(number) for number in range(16)))

    asyncio.run(all_of_them())


def test_what_a_test_begins_with(namespace: Namespace) -> None:
    namespace.create_queue("orders")
    namespace.send("orders", "a", b"\xff", subject="s", properties={"k": 1}, time_to_live="1h")
    namespace.send("orders", "b", message_id="7", session_id="x", correlation_id="c")
    namespace.assert_messages(
        "orders",
        [
            expect("a", subject="s", properties={"k": 1}, time_to_live=datetime.timedelta(hours=1)),
            expect(b"\xff", subject="s"),
            expect("b", message_id="7", session_id="x", correlation_id="c"),
        ],
    )


async def test_and_from_a_coroutine(namespace: Namespace) -> None:
    namespace.create_queue("orders")
    namespace.send("orders", "a")
    with namespace.faults.store_full(), pytest.raises(RemoteError, match="server-busy"):
        namespace.send("orders", "b")
    namespace.assert_messages("orders", ["a"])
