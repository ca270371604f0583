"""The essentials of settlement with the stock asynchronous Python client, side by side.

Opening a handler costs this client half a second of its own pauses, so each test runs its
steps on several queues at once.
"""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from azure.servicebus import ServiceBusMessage, ServiceBusMessageState, ServiceBusSubQueue
from azure.servicebus.aio import AutoLockRenewer, ServiceBusClient, ServiceBusReceiver
from azure.servicebus.exceptions import (
    MessageAlreadySettled,
    MessageLockLostError,
    MessageNotFoundError,
    MessageSizeExceededError,
    MessagingEntityDisabledError,
    ServiceBusQuotaExceededError,
)

from conformance.settlement.namespace import Queues
from conformance.settlement.steps import opened, seconds, utc_now
from support.receiving import bodies, collect_async
from support.server import ServerProcess


@pytest_asyncio.fixture
async def client(server: ServerProcess) -> AsyncIterator[ServiceBusClient]:
    async with ServiceBusClient.from_connection_string(
        server.connection_string, retry_total=0
    ) as connected:
        yield connected


def texts(*bodies: str) -> list[ServiceBusMessage]:
    return [ServiceBusMessage(body) for body in bodies]


@pytest.mark.rule("SCH-1", "SCH-3", "SCH-4", "ERR-7")
async def test_schedule_and_cancel(client: ServiceBusClient, queue: str) -> None:
    async with opened(client.get_queue_sender(queue), client.get_queue_receiver(queue)) as (
        sender,
        receiver,
    ):
        due = utc_now() + seconds(1)
        kept, cancelled = await sender.schedule_messages(texts("kept", "cancelled"), due)
        await sender.cancel_scheduled_messages(cancelled)
        (shown,) = await receiver.peek_messages(max_message_count=10)
        assert (shown.sequence_number, shown.state) == (kept, ServiceBusMessageState.SCHEDULED)
        with pytest.raises(MessageNotFoundError):
            await sender.cancel_scheduled_messages(cancelled)
        (message,) = await collect_async(receiver, 1)
        assert str(message) == "kept"
        assert message.sequence_number > kept
        assert message.enqueued_time_utc >= due - seconds(0.001)
        await receiver.complete_message(message)
        assert await receiver.peek_messages(sequence_number=1) == []


@pytest.mark.rule("SEED-102", "DEF-1", "DEF-2", "DEF-3", "DEF-5")
async def test_defer_and_receive_by_number(client: ServiceBusClient, queue: str) -> None:
    async with opened(client.get_queue_sender(queue), client.get_queue_receiver(queue)) as (
        sender,
        receiver,
    ):
        await sender.send_messages(texts("set aside", "next"))
        (message,) = await collect_async(receiver, 1)
        await receiver.defer_message(message)
        (other,) = await collect_async(receiver, 1)
        assert str(other) == "next"
        await receiver.complete_message(other)
        (again,) = await receiver.receive_deferred_messages(message.sequence_number)
        with pytest.raises(MessageNotFoundError):
            await receiver.receive_deferred_messages(message.sequence_number)
        await receiver.abandon_message(again)
        (again,) = await receiver.receive_deferred_messages([message.sequence_number])
        assert again.delivery_count == 2, "the deferral and the abandon"
        await receiver.complete_message(again)
        assert await receiver.peek_messages(sequence_number=1) == []


@pytest.mark.rule("SEED-101", "DLQ-3", "DLQ-5", "TTL-6", "PEK-3")
async def test_dead_letters(client: ServiceBusClient, queues: Queues) -> None:
    queue = queues.fresh("mourning")
    async with opened(
        client.get_queue_sender(queue),
        client.get_queue_receiver(queue),
        client.get_queue_receiver(queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER),
    ) as (sender, receiver, letters):
        await sender.send_messages(ServiceBusMessage("bad"))
        await sender.send_messages(ServiceBusMessage("late", time_to_live=seconds(1)))
        (message,) = await collect_async(receiver, 1)
        await receiver.dead_letter_message(message, reason="own", error_description="words")
        dead = await collect_async(letters, 2)
        assert bodies(dead) == ["bad", "late"]
        assert [m.dead_letter_reason for m in dead] == ["own", "TTLExpiredException"]
        assert dead[0].dead_letter_error_description == "words"
        assert bodies(await letters.peek_messages(2, sequence_number=1)) == ["bad", "late"]
        await asyncio.gather(*(letters.complete_message(message) for message in dead))
        assert await letters.peek_messages(sequence_number=1) == []


@pytest.mark.rule("LCK-3", "SEED-95")
async def test_renewal_by_hand_and_by_the_renewer(client: ServiceBusClient, queues: Queues) -> None:
    queue = queues.fresh("renewed")
    async with (
        opened(
            client.get_queue_sender(queue),
            client.get_queue_receiver(queue),
            client.get_queue_receiver(queue),
        ) as (sender, receiver, other),
        AutoLockRenewer() as renewer,
    ):
        await sender.send_messages(texts("by hand", "by the renewer"))
        by_hand, by_renewer = await collect_async(receiver, 2)
        renewer.register(receiver, by_renewer, max_lock_renewal_duration=60)
        first = by_hand.locked_until_utc
        # Asking another receiver in vain passes the time, and shows that both stay locked.
        while utc_now() < first + seconds(0.3):
            assert await receiver.renew_message_lock(by_hand) > first
            assert await other.receive_messages(max_wait_time=0.3) == []
        await receiver.complete_message(by_hand)
        await receiver.complete_message(by_renewer)
        assert by_renewer.auto_renew_error is None
        assert await receiver.peek_messages(sequence_number=1) == []


@pytest.mark.rule("SEED-103", "SEED-108", "LCK-5", "LCK-9", "ERR-4")
async def test_lost_locks_and_settling_twice(client: ServiceBusClient, queues: Queues) -> None:
    queue = queues.fresh("brief")  # a second
    names = ["complete", "abandon", "defer", "dead_letter"]
    async with opened(
        client.get_queue_sender(queue),
        client.get_queue_receiver(queue),
        client.get_queue_receiver(queue),
    ) as (sender, loser, holder):
        await sender.send_messages(texts(*names))
        lost = await collect_async(loser, len(names))
        held = await collect_async(holder, len(names))
        assert {message.delivery_count for message in held} == {1}
        for message in lost:
            with pytest.raises(MessageLockLostError):
                await getattr(loser, f"{message}_message")(message)
        with pytest.raises(MessageLockLostError):
            await loser.renew_message_lock(lost[0])
        await holder.complete_message(held[0])
        with pytest.raises(MessageAlreadySettled):
            await holder.complete_message(held[0])


@pytest.mark.rule("ERR-3", "ERR-8", "ERR-9", "SEED-84")
async def test_refusals_have_their_classes(client: ServiceBusClient, queues: Queues) -> None:
    async def refusal(queue: str, *sizes: int) -> type[BaseException] | None:
        try:
            async with client.get_queue_sender(queue) as sender:
                for size in sizes:
                    await sender.send_messages(ServiceBusMessage(b"x" * size))
        except Exception as error:
            return type(error)
        return None

    found = await asyncio.gather(
        refusal(queues.fresh("narrow"), 20_000),
        refusal(queues.fresh("tiny"), 900_000, 200_000),
        refusal(queues.fresh("disabled"), 1),
        refusal(queues.fresh(), 1),
    )
    assert found == [
        MessageSizeExceededError,
        ServiceBusQuotaExceededError,
        MessagingEntityDisabledError,
        None,
    ]


@pytest.mark.rule("SEED-94", "SEED-96", "ENT-2")
async def test_competing_receivers_that_settle_in_every_way_lose_nothing(
    client: ServiceBusClient, queue: str
) -> None:
    numbers = [str(number) for number in range(60)]
    done: dict[str, str] = {}

    async def work(receiver: ServiceBusReceiver) -> None:
        while len(done) < len(numbers):
            for message in await receiver.receive_messages(5, max_wait_time=0.3):
                text = str(message)
                assert text not in done, "a message that is settled for good came again"
                if int(text) % 3 == 0 and message.delivery_count == 0:
                    await receiver.abandon_message(message)
                elif int(text) % 3 == 1:
                    done[text] = "dead"
                    await receiver.dead_letter_message(message)
                else:
                    done[text] = "complete"
                    await receiver.complete_message(message)

    async with opened(
        client.get_queue_sender(queue),
        client.get_queue_receiver(queue),
        client.get_queue_receiver(queue),
        client.get_queue_receiver(queue, prefetch_count=3),
        client.get_queue_receiver(queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER),
    ) as (sender, one, two, three, letters):
        await sender.send_messages(texts(*numbers))
        await asyncio.gather(work(one), work(two), work(three))
        assert sorted(done, key=int) == numbers
        dead = await letters.peek_messages(max_message_count=100)
        assert sorted(int(text) for text in bodies(dead)) == list(range(1, 60, 3))
