"""The stock Python client over WebSocket: plain and with TLS, on every port, sync and aio."""

from collections.abc import Iterator

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient as AsyncServiceBusClient

from conformance.transports.clients import WEBSOCKETS, Way
from support.receiving import bodies, collect
from support.server import ServerProcess

LARGE = 900_000


@pytest.fixture(params=WEBSOCKETS, ids=str)
def way(request: pytest.FixtureRequest, server: ServerProcess) -> Way:
    way: Way = request.param
    return way.to(server)


@pytest.fixture
def client(way: Way) -> Iterator[ServiceBusClient]:
    with ServiceBusClient.from_connection_string(way.connection_string, **way.options) as made:
        yield made


@pytest.mark.rule("AMQ-1")
def test_send_receive_and_settle(client: ServiceBusClient, queue: str) -> None:
    with client.get_queue_sender(queue) as sender:
        sender.send_messages(ServiceBusMessage("one", application_properties={"n": 1}))
        sender.send_messages([ServiceBusMessage(str(n)) for n in range(20)])
    with client.get_queue_receiver(queue) as receiver:
        messages = collect(receiver, 21)
        assert bodies(messages) == ["one", *map(str, range(20))]
        for message in messages:
            receiver.complete_message(message)
        assert receiver.peek_messages() == []


def test_large_messages_both_ways(client: ServiceBusClient, queue: str) -> None:
    """Far more than one WebSocket message of ours, and one of theirs for each AMQP frame."""
    body = bytes(range(256)) * (LARGE // 256)
    with client.get_queue_sender(queue) as sender:
        sender.send_messages(ServiceBusMessage(body))
        sender.send_messages(ServiceBusMessage(body[::-1]))
    with client.get_queue_receiver(queue) as receiver:
        first, second = collect(receiver, 2)
        assert b"".join(first.body) == body
        assert b"".join(second.body) == body[::-1]
        receiver.complete_message(first)
        receiver.complete_message(second)


def test_requests_go_over_the_same_socket(client: ServiceBusClient, queue: str) -> None:
    with client.get_queue_sender(queue) as sender:
        sender.send_messages([ServiceBusMessage("a"), ServiceBusMessage("b")])
    with client.get_queue_receiver(queue) as receiver:
        assert bodies(receiver.peek_messages(max_message_count=2)) == ["a", "b"]
        (locked,) = collect(receiver, 1)
        until = locked.locked_until_utc
        assert receiver.renew_message_lock(locked) >= until
        receiver.complete_message(locked)


# The client passes ssl=None to aiohttp, which says that this is going away.
@pytest.mark.filterwarnings("ignore:ssl=None is deprecated:DeprecationWarning")
async def test_the_asynchronous_client(way: Way, queue: str) -> None:
    body = bytes(LARGE)
    async with AsyncServiceBusClient.from_connection_string(
        way.connection_string, **way.async_options()
    ) as client:
        async with client.get_queue_sender(queue) as sender:
            await sender.send_messages([ServiceBusMessage(str(n)) for n in range(10)])
            await sender.send_messages(ServiceBusMessage(body))
        async with client.get_queue_receiver(queue) as receiver:
            received = []
            while len(received) < 11:
                more = await receiver.receive_messages(max_message_count=11, max_wait_time=30)
                assert more
                for message in more:
                    await receiver.complete_message(message)
                received += more
    assert bodies(received[:10]) == [str(n) for n in range(10)]
    assert b"".join(received[10].body) == body
