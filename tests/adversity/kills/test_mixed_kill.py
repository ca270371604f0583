"""SIGKILL in the middle of every kind of operation, with the stock client.

Workers send, schedule, cancel, receive, complete, abandon, defer, dead-letter and receive by
number, each noting before an operation what may become of the message, and after its answer
what has. Whatever the server shows after a restart must be one of the possibilities noted.
"""

import asyncio
import contextlib
import gc
import random
import signal
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import pytest
from azure.servicebus import (
    ServiceBusMessage,
    ServiceBusMessageState,
    ServiceBusReceivedMessage,
    ServiceBusReceiveMode,
    ServiceBusSubQueue,
)
from azure.servicebus.aio import ServiceBusClient, ServiceBusReceiver

from adversity.conftest import NewServer
from adversity.ledger import Ledger, Place
from adversity.victim import Victim
from adversity.waiting import wait_until_async

# The stock client leaves the sockets of a server that died to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

QUEUE = "first"
VANISHING = "second"  # its messages are received and deleted
CLIENTS = 4
WORKERS = 16
DEADLINE_SECONDS = 60
NEVER = timedelta(hours=6)
_PLACES = {
    ServiceBusMessageState.ACTIVE: Place.ACTIVE,
    ServiceBusMessageState.DEFERRED: Place.DEFERRED,
    ServiceBusMessageState.SCHEDULED: Place.SCHEDULED,
}


class Worker:
    """One client that does what the lots tell it, until its connection is gone."""

    def __init__(self, client: ServiceBusClient, ledger: Ledger, rng: random.Random) -> None:
        self._client = client
        self._ledger = ledger
        self._rng = rng
        self.done_count = 0

    async def run(self) -> None:
        client = self._client
        async with (
            client.get_queue_sender(QUEUE) as sender,
            client.get_queue_receiver(QUEUE) as receiver,
        ):
            self._sender, self._receiver = sender, receiver
            actions: tuple[Callable[[], Awaitable[None]], ...] = (
                self._send,
                self._send,
                self._schedule,
                self._cancel,
                self._receive,
                self._receive,
                self._receive_deferred,
            )
            while True:
                await self._rng.choice(actions)()

    async def _send(self) -> None:
        names = [self._ledger.new_name() for _ in range(self._rng.randrange(1, 12))]
        for name in names:
            self._ledger.may_become(name, Place.ABSENT, Place.ACTIVE)
        await self._sender.send_messages([_message(name) for name in names])
        for name in names:
            self._ledger.has_become(name, Place.ACTIVE)
        self.done_count += len(names)

    async def _schedule(self) -> None:
        """Some become due during the test, the others never."""
        is_soon = self._rng.random() < 0.5
        wait = timedelta(seconds=self._rng.random() * 3) if is_soon else NEVER
        names = [self._ledger.new_name() for _ in range(self._rng.randrange(1, 5))]
        places = (Place.SCHEDULED, Place.ACTIVE) if is_soon else (Place.SCHEDULED,)
        for name in names:
            self._ledger.may_become(name, Place.ABSENT, *places)
        if not is_soon:
            self._ledger.never_due.update(names)
        due = datetime.now(UTC) + wait
        numbers = await self._sender.schedule_messages([_message(n) for n in names], due)
        # What was due when it arrived was never scheduled: it keeps its number.
        was_scheduled = datetime.now(UTC) < due
        for name, number in zip(names, numbers, strict=True):
            self._ledger.has_become(name, *places)
            if was_scheduled:
                self._ledger.scheduled(name, number)
            if not is_soon:
                self._ledger.cancellable.append((name, number))
        self.done_count += len(names)

    async def _cancel(self) -> None:
        if not self._ledger.cancellable:
            return
        name, number = self._ledger.cancellable.pop()
        self._ledger.may_become(name, Place.SCHEDULED, Place.ABSENT)
        await self._sender.cancel_scheduled_messages(number)
        self._ledger.has_become(name, Place.ABSENT)
        self.done_count += 1

    async def _receive(self) -> None:
        messages = await self._receiver.receive_messages(max_message_count=10, max_wait_time=0.2)
        for message in messages:
            self._ledger.received(message)
            await self._settle(message, Place.ACTIVE)

    async def _receive_deferred(self) -> None:
        count = min(len(self._ledger.deferred), self._rng.randrange(1, 4))
        taken = [self._ledger.deferred.pop() for _ in range(count)]
        if not taken:
            return
        numbers = [self._ledger.number_of[name] for name in taken]
        for message in await self._receiver.receive_deferred_messages(numbers):
            await self._settle(message, Place.DEFERRED)

    async def _settle(self, message: ServiceBusReceivedMessage, here: Place) -> None:
        name, receiver, ledger = str(message.message_id), self._receiver, self._ledger
        lot = self._rng.randrange(10)
        if lot < 3:
            ledger.may_become(name, here, Place.ABSENT)
            await receiver.complete_message(message)
            ledger.has_become(name, Place.ABSENT)
        elif lot < 5:
            ledger.ends_delivery(name)
            await receiver.abandon_message(message)
            ledger.ended_delivery(name)
            if here is Place.DEFERRED:
                ledger.deferred.append(name)
        elif lot < 7:
            ledger.may_become(name, here, Place.DEFERRED)
            ledger.ends_delivery(name)
            await receiver.defer_message(message)
            ledger.ended_delivery(name)
            ledger.has_become(name, Place.DEFERRED)
            ledger.deferred.append(name)
        elif lot < 9:
            ledger.may_become(name, here, Place.DEAD)
            await receiver.dead_letter_message(
                message, reason=f"reason of {name}", error_description=f"description of {name}"
            )
            ledger.has_become(name, Place.DEAD)
        else:
            return  # it stays locked
        self.done_count += 1


def _message(name: str) -> ServiceBusMessage:
    return ServiceBusMessage(f"body of {name}", message_id=name)


class Vanishing:
    """Receive-and-delete: at most what was asked for when the end came may be lost."""

    def __init__(self) -> None:
        self.acknowledged: set[str] = set()
        self.sent: set[str] = set()
        self.received: list[str] = []
        self.asked_count = 0
        """Messages that the open call may have taken with it."""
        self.lost_max = 0

    async def run(self, client: ServiceBusClient, prefix: str) -> None:
        async with (
            client.get_queue_sender(VANISHING) as sender,
            client.get_queue_receiver(
                VANISHING, receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE
            ) as receiver,
        ):
            number = 0
            while True:
                names = [f"{prefix}.{number + index}" for index in range(10)]
                number += 10
                self.sent.update(names)
                await sender.send_messages([_message(name) for name in names])
                self.acknowledged.update(names)
                self.asked_count = 5
                messages = await receiver.receive_messages(max_message_count=5, max_wait_time=5)
                self.received += [str(message.message_id) for message in messages]
                self.asked_count = 0

    def life_ended(self) -> None:
        self.lost_max += self.asked_count
        self.asked_count = 0


async def live(
    victim: Victim, ledger: Ledger, vanishing: Vanishing, rng: random.Random, number: int
) -> None:
    """Work until the drawn operation, then kill."""
    ends_after = rng.randrange(20, 400)
    ending = signal.SIGTERM if rng.random() < 0.2 else signal.SIGKILL
    async with contextlib.AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(
                ServiceBusClient.from_connection_string(victim.connection_string, retry_total=0)
            )
            for _ in range(CLIENTS)
        ]
        workers = [
            Worker(clients[index % CLIENTS], ledger, random.Random(rng.random()))
            for index in range(WORKERS)
        ]
        tasks = [asyncio.create_task(worker.run()) for worker in workers]
        tasks.append(asyncio.create_task(vanishing.run(clients[0], f"life{number}")))
        enough = asyncio.create_task(
            wait_until_async(lambda: _sum(workers) >= ends_after, "operations are done")
        )
        async with asyncio.timeout(DEADLINE_SECONDS):
            ended, _ = await asyncio.wait([enough, *tasks], return_when=asyncio.FIRST_COMPLETED)
        victim.begin_to_end(ending)
        for task in ended - {enough}:
            await task  # a worker that failed while the server ran: show why
        code = await asyncio.to_thread(victim.ended)
        assert code == (0 if ending == signal.SIGTERM else -signal.SIGKILL)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    vanishing.life_ended()


def _sum(workers: list[Worker]) -> int:
    return sum(worker.done_count for worker in workers)


async def check(victim: Victim, ledger: Ledger) -> dict[str, Place]:
    """Hold everything that the server shows against the ledger."""
    found: dict[str, Place] = {}
    async with _connected(victim) as client:
        async with client.get_queue_receiver(QUEUE) as receiver:
            for message in await peek_all(receiver):
                place = _PLACES[message.state]
                ledger.shown(message, place)
                name = str(message.message_id)
                # Between two peeks a message may become due and be shown a second time.
                assert name not in found or found[name] is Place.SCHEDULED, f"{name} twice"
                found[name] = place
        async with client.get_queue_receiver(
            QUEUE, sub_queue=ServiceBusSubQueue.DEAD_LETTER
        ) as receiver:
            for message in await peek_all(receiver):
                ledger.shown(message, Place.DEAD)
                assert str(message.message_id) not in found, f"{message.message_id} twice"
                found[str(message.message_id)] = Place.DEAD
    ledger.settle(found)
    return found


async def peek_all(receiver: ServiceBusReceiver) -> list[ServiceBusReceivedMessage]:
    messages: list[ServiceBusReceivedMessage] = []
    number = 0
    while page := await receiver.peek_messages(max_message_count=200, sequence_number=number):
        messages += page
        number = (page[-1].sequence_number or 0) + 1
    return messages


async def empty(victim: Victim, ledger: Ledger) -> None:
    """In the end every message can be taken from where it is, once."""
    found = await check(victim, ledger)
    async with asyncio.timeout(DEADLINE_SECONDS):
        while any(found[n] is Place.SCHEDULED for n in found.keys() - ledger.never_due):
            found = await check(victim, ledger)
    here = {place: {n for n in found if found[n] is place} for place in Place}
    async with _connected(victim) as client:
        async with client.get_queue_receiver(QUEUE, prefetch_count=100) as receiver:
            assert await _complete_all(receiver, len(here[Place.ACTIVE])) == here[Place.ACTIVE]
            numbers = sorted(ledger.number_of[name] for name in here[Place.DEFERRED])
            for start in range(0, len(numbers), 50):
                batch = await receiver.receive_deferred_messages(numbers[start:][:50])
                here[Place.DEFERRED] -= {str(message.message_id) for message in batch}
                await asyncio.gather(*[receiver.complete_message(one) for one in batch])
            assert not here[Place.DEFERRED]
        async with client.get_queue_receiver(
            QUEUE, sub_queue=ServiceBusSubQueue.DEAD_LETTER, prefetch_count=100
        ) as receiver:
            assert await _complete_all(receiver, len(here[Place.DEAD])) == here[Place.DEAD]
        async with client.get_queue_receiver(QUEUE) as receiver:
            left = {str(message.message_id) for message in await peek_all(receiver)}
            assert left == here[Place.SCHEDULED]


async def _complete_all(receiver: ServiceBusReceiver, count: int) -> set[str]:
    """Receive and complete so many, each of them once."""
    names: list[str] = []
    while len(names) < count:
        batch = await receiver.receive_messages(max_message_count=100, max_wait_time=20)
        assert batch, f"only {len(names)} of {count} came"
        names += [str(message.message_id) for message in batch]
        await asyncio.gather(*[receiver.complete_message(message) for message in batch])
    assert len(names) == len(set(names)), "delivered twice"
    return set(names)


async def check_vanishing(victim: Victim, vanishing: Vanishing) -> None:
    """Nothing came twice, and no more is lost than was on its way."""
    async with _connected(victim) as client, client.get_queue_receiver(VANISHING) as receiver:
        left = [str(message.message_id) for message in await peek_all(receiver)]
    seen = vanishing.received + left
    assert len(seen) == len(set(seen)), "a deleted message came again"
    assert set(seen) <= vanishing.sent
    lost = vanishing.acknowledged - set(seen)
    assert len(lost) <= vanishing.lost_max, f"{len(lost)} lost of {vanishing.lost_max} on their way"


def _connected(victim: Victim) -> ServiceBusClient:
    return ServiceBusClient.from_connection_string(victim.connection_string)


def live_and_die(new_server: NewServer, seed: int, lives: int) -> None:
    rng = random.Random(seed)
    victim = new_server()
    victim.start()
    ledger, vanishing = Ledger(), Vanishing()
    for number in range(lives):
        asyncio.run(live(victim, ledger, vanishing, rng, number))
        gc.collect()
        victim.start()
        asyncio.run(check(victim, ledger))
    asyncio.run(check_vanishing(victim, vanishing))
    victim.restart()
    asyncio.run(empty(victim, ledger))


@pytest.mark.rule("SEED-93", "SEED-107", "SEQ-8", "DEF-1", "DEF-2", "DLQ-5", "SCH-4", "DLV-1")
def test_every_operation_survives_a_kill(new_server: NewServer, seed: int) -> None:
    live_and_die(new_server, seed, 2)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_operation_survives_many_kills(new_server: NewServer, seed: int) -> None:
    live_and_die(new_server, seed, 25)
