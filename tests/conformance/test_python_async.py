"""The stock Python client, asynchronous: pipelined sends, overlapping receivers, settlement."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from azure.servicebus import ServiceBusMessage, ServiceBusReceiveMode, ServiceBusSubQueue
from azure.servicebus.aio import ServiceBusClient
from azure.servicebus.exceptions import MessagingEntityNotFoundError

from support.namespace import Queues
from support.receiving import bodies, collect_async
from support.server import ServerProcess

RECEIVE_AND_DELETE = ServiceBusReceiveMode.RECEIVE_AND_DELETE


@pytest_asyncio.fixture
async def client(server: ServerProcess) -> AsyncIterator[ServiceBusClient]:
    async with ServiceBusClient.from_connection_string(
        server.connection_string, retry_total=0
    ) as connected:
        yield connected


async def take(client: ServiceBusClient, queue: str, count: int) -> list[str]:
    async with client.get_queue_receiver(queue, receive_mode=RECEIVE_AND_DELETE) as receiver:
        return bodies(await collect_async(receiver, count))


@pytest.mark.rule("SEED-82", "SEED-99")
async def test_send_receive_complete(client: ServiceBusClient, queue: str) -> None:
    async with client.get_queue_sender(queue) as sender:
        await sender.send_messages(ServiceBusMessage("first"))
        async with client.get_queue_receiver(queue) as receiver:
            (message,) = await collect_async(receiver, 1)
            assert str(message) == "first"
            await receiver.complete_message(message)
        await sender.send_messages(ServiceBusMessage("marker"))
    assert await take(client, queue, 1) == ["marker"]


@pytest.mark.rule("SEED-85", "SEED-86", "SEED-87")
async def test_overlapping_sends_are_all_accepted(client: ServiceBusClient, queue: str) -> None:
    async with client.get_queue_sender(queue) as sender:
        await asyncio.gather(
            *(sender.send_messages(ServiceBusMessage(str(number))) for number in range(200))
        )
    received = await take(client, queue, 200)
    assert sorted(received, key=int) == [str(number) for number in range(200)]


async def test_many_senders_at_once(client: ServiceBusClient, queue: str) -> None:
    async def send(sender_number: int) -> None:
        async with client.get_queue_sender(queue) as sender:
            for number in range(10):
                await sender.send_messages(ServiceBusMessage(f"{sender_number}-{number}"))

    async with asyncio.TaskGroup() as group:
        for sender_number in range(10):
            group.create_task(send(sender_number))
    received = await take(client, queue, 100)
    for sender_number in range(10):
        mine = [body for body in received if body.startswith(f"{sender_number}-")]
        assert mine == [f"{sender_number}-{number}" for number in range(10)]


async def test_batches(client: ServiceBusClient, queue: str) -> None:
    async with client.get_queue_sender(queue) as sender:
        batch = await sender.create_message_batch()
        for number in range(20):
            batch.add_message(ServiceBusMessage(str(number)))
        await sender.send_messages(batch)
        await sender.send_messages([ServiceBusMessage(str(number)) for number in range(20, 40)])
    assert await take(client, queue, 40) == [str(number) for number in range(40)]


async def test_a_large_message(client: ServiceBusClient, queue: str) -> None:
    body = bytes(range(256)) * 800
    async with client.get_queue_sender(queue) as sender:
        await sender.send_messages(ServiceBusMessage(body))
    async with client.get_queue_receiver(queue, receive_mode=RECEIVE_AND_DELETE) as receiver:
        (message,) = await collect_async(receiver, 1)
    assert b"".join(message.body) == body


@pytest.mark.rule("SEED-100", "SEED-101", "DLV-1")
async def test_abandon_then_dead_letter(client: ServiceBusClient, queue: str) -> None:
    async with client.get_queue_sender(queue) as sender:
        await sender.send_messages(ServiceBusMessage("bad"))
    async with client.get_queue_receiver(queue) as receiver:
        (message,) = await collect_async(receiver, 1)
        await receiver.abandon_message(message)
        (message,) = await collect_async(receiver, 1)
        assert message.delivery_count == 1
        await receiver.dead_letter_message(message, reason="Tired", error_description="of it")
    async with client.get_queue_receiver(
        queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER
    ) as receiver:
        (dead,) = await collect_async(receiver, 1)
        assert (dead.dead_letter_reason, dead.dead_letter_error_description) == ("Tired", "of it")
        await receiver.complete_message(dead)


@pytest.mark.rule("SEED-94", "SEED-96")
async def test_overlapping_receivers_share_a_queue(client: ServiceBusClient, queue: str) -> None:
    async with client.get_queue_sender(queue) as sender:
        await sender.send_messages([ServiceBusMessage(str(number)) for number in range(120)])
    seen: list[int] = []

    async def work() -> None:
        async with client.get_queue_receiver(queue, prefetch_count=5) as receiver:
            while len(seen) < 120:
                for message in await receiver.receive_messages(10, max_wait_time=1):
                    seen.append(message.sequence_number)
                    await receiver.complete_message(message)

    async with asyncio.TaskGroup() as group:
        for _ in range(4):
            group.create_task(work())
    assert len(seen) == len(set(seen)) == 120


@pytest.mark.rule("LCK-2")
async def test_a_waiting_receiver_gets_the_next_message_sent(
    client: ServiceBusClient, queue: str
) -> None:
    async with (
        client.get_queue_receiver(queue) as receiver,
        client.get_queue_sender(queue) as sender,
    ):
        waiting = asyncio.create_task(collect_async(receiver, 1))
        await sender.send_messages(ServiceBusMessage("awaited"))
        (message,) = await waiting
        assert str(message) == "awaited"
        await receiver.complete_message(message)


@pytest.mark.rule("SEED-98", "DLV-2")
async def test_too_many_deliveries(client: ServiceBusClient, queues: Queues) -> None:
    queue = queues.fresh("fragile")
    async with client.get_queue_sender(queue) as sender:
        await sender.send_messages(ServiceBusMessage("poison"))
    async with client.get_queue_receiver(queue) as receiver:
        for _ in range(2):
            await receiver.abandon_message(*await collect_async(receiver, 1))
    async with client.get_queue_receiver(
        queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER, receive_mode=RECEIVE_AND_DELETE
    ) as receiver:
        (dead,) = await collect_async(receiver, 1)
    assert dead.dead_letter_reason == "MaxDeliveryCountExceeded"


@pytest.mark.rule("ERR-1")
async def test_a_missing_queue(client: ServiceBusClient) -> None:
    with pytest.raises(MessagingEntityNotFoundError):
        async with client.get_queue_sender("no-such-queue") as sender:
            await sender.send_messages(ServiceBusMessage("lost"))
