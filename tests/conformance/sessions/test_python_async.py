"""The essentials of sessions with the stock asynchronous Python client."""

import asyncio
import datetime
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from azure.servicebus import NEXT_AVAILABLE_SESSION, ServiceBusMessage
from azure.servicebus.aio import AutoLockRenewer, ServiceBusClient
from azure.servicebus.exceptions import (
    OperationTimeoutError,
    ServiceBusError,
    SessionCannotBeLockedError,
    SessionLockLostError,
)

from conformance.settlement.steps import seconds, utc_now
from support.receiving import bodies, collect_async
from support.server import ServerProcess


@pytest_asyncio.fixture
async def client(server: ServerProcess) -> AsyncIterator[ServiceBusClient]:
    async with ServiceBusClient.from_connection_string(
        server.connection_string, retry_total=0
    ) as connected:
        yield connected


async def send(client: ServiceBusClient, queue: str, *messages: tuple[str, str]) -> None:
    async with client.get_queue_sender(queue) as sender:
        for session_id, body in messages:
            await sender.send_messages(ServiceBusMessage(body, session_id=session_id))


async def past(moment: datetime.datetime) -> None:
    """Wait for a moment; a lock ends by the server's clock, which is ours."""
    await asyncio.sleep(max(0.0, (moment - utc_now()).total_seconds()))


@pytest.mark.rule("SES-3", "SES-9", "SES-10", "SES-14", "SES-16")
async def test_a_session_from_accepting_to_closing(client: ServiceBusClient, queue: str) -> None:
    await send(client, queue, ("a", "1"), ("b", "x"), ("a", "2"))
    async with client.get_queue_receiver(queue, session_id="a") as receiver:
        assert receiver.session.session_id == "a"
        with pytest.raises(SessionCannotBeLockedError):
            async with client.get_queue_receiver(queue, session_id="a"):
                pass
        (first,) = await collect_async(receiver, 1)
        await receiver.abandon_message(first)
        messages = await collect_async(receiver, 2)
        assert [(str(m), m.delivery_count) for m in messages] == [("1", 1), ("2", 0)]
        await receiver.complete_message(messages[0])
        await receiver.session.set_state(b"one done")
        assert await receiver.session.get_state() == b"one done"
        assert await receiver.session.renew_lock() > utc_now()
        assert bodies(await receiver.peek_messages(10, sequence_number=1)) == ["2"]
        await receiver.defer_message(messages[1])
        (deferred,) = await receiver.receive_deferred_messages(messages[1].sequence_number)
        await receiver.complete_message(deferred)
    async with client.get_queue_receiver(queue, session_id="a") as receiver:
        assert await receiver.session.get_state() == b"one done"
    assert sorted([name async for name in client.list_queue_sessions(queue)]) == ["a", "b"]


@pytest.mark.rule("SES-4", "SES-25")
async def test_the_next_session(client: ServiceBusClient, queue: str) -> None:
    names = ["s1", "s2", "s3"]
    for name in names:
        await send(client, queue, (name, name))
        # Of messages that were enqueued in the same millisecond, no fragment is first.
        await past(utc_now() + seconds(0.001))
    given = []
    for _ in names:
        receiver = client.get_queue_receiver(
            queue, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=5
        )
        await receiver.__aenter__()
        given.append(receiver.session.session_id)
    assert given == names
    with pytest.raises(OperationTimeoutError):
        async with client.get_queue_receiver(
            queue, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=1
        ):
            pass


@pytest.mark.rule("SES-4")
async def test_receivers_that_wait_are_served_as_sessions_come(
    client: ServiceBusClient, queue: str
) -> None:
    waiting = [
        client.get_queue_receiver(queue, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=30)
        for _ in range(3)
    ]
    entering = asyncio.gather(*(receiver.__aenter__() for receiver in waiting))
    await send(client, queue, ("a", "1"), ("b", "2"), ("c", "3"), ("a", "4"))
    await entering
    assert {receiver.session.session_id for receiver in waiting} == {"a", "b", "c"}
    for receiver in waiting:
        await receiver.__aexit__()


@pytest.mark.rule("SES-7", "SES-12", "SES-13")
async def test_a_lost_session(client: ServiceBusClient, brief: str) -> None:
    await send(client, brief, ("a", "1"))
    async with client.get_queue_receiver(brief, session_id="a") as receiver:
        (message,) = await collect_async(receiver, 1)
        await past(receiver.session.locked_until_utc + seconds(0.2))
        with pytest.raises(SessionLockLostError):
            await receiver.complete_message(message)
    async with client.get_queue_receiver(brief, session_id="a") as receiver:
        assert [m.delivery_count for m in await collect_async(receiver, 1)] == [1]


@pytest.mark.rule("SES-7")
async def test_a_session_kept_by_the_client_s_renewer(
    client: ServiceBusClient, renewed: str
) -> None:
    await send(client, renewed, ("a", "1"))
    renewer = AutoLockRenewer()
    async with (
        renewer,
        client.get_queue_receiver(renewed, session_id="a", auto_lock_renewer=renewer) as receiver,
    ):
        (message,) = await collect_async(receiver, 1)
        await past(receiver.session.locked_until_utc + seconds(0.5))
        await receiver.complete_message(message)


@pytest.mark.rule("SES-1")
async def test_refusals(client: ServiceBusClient, queue: str) -> None:
    async with client.get_queue_sender(queue) as sender:
        with pytest.raises(ServiceBusError, match="SessionId"):
            await sender.send_messages(ServiceBusMessage("lost"))
    with pytest.raises(ServiceBusError, match="requires sessions"):
        async with client.get_queue_receiver(queue):
            pass
