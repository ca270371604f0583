"""Receives over HTTP on a bus in memory: what becomes of a message whose client has gone."""

import asyncio
from collections.abc import Awaitable, Iterator
from typing import TypeVar

import pytest

from partibus.domain.entity import QueueSpec
from partibus.domain.errors import EntityNotFound, InvalidOperation, MessageLockLost, Unauthorized
from partibus.rest.broker_properties import SentProperties
from partibus.rest.error_mapping import Stopping
from partibus.rest.message import Received, encode_message
from partibus.rest.plane import DataPlane
from partibus.testing.bus import BusBench
from support.sas import sas_token

Result = TypeVar("Result")
FRAGMENTS = 4


class Bench:
    """A bus, its data plane, and the loop turned together with the bus."""

    def __init__(self) -> None:
        self.bus = BusBench(stores=2)
        self.bus.queue("whole")
        self.bus.queue("parts", QueueSpec(enable_partitioning=True, fragments=FRAGMENTS))
        self.plane = DataPlane(self.bus.gateway)
        self.token = sas_token("sb://bus/")

    async def turn(self) -> None:
        """Let everything happen that can happen now."""
        for _ in range(20):
            self.bus.scheduler.run()
            await asyncio.sleep(0)

    async def until(self, work: Awaitable[Result]) -> Result:
        task = asyncio.ensure_future(work)
        while not task.done():
            await self.turn()
        return task.result()

    async def send(self, queue: str, *bodies: bytes) -> None:
        entity = self.plane.sendable(queue, self.token)
        payloads = [encode_message(body, SentProperties(), {}) for body in bodies]
        await self.until(self.plane.send(entity, payloads))

    def lock(self, queue: str, client: "Client", timeout_s: float = 60) -> "asyncio.Task[object]":
        """A client that asks, and waits for as long as it stays."""
        work = self.plane.peek_lock(queue, self.token, timeout_s, client.departure)
        return asyncio.ensure_future(work)

    async def bodies(self, queue: str) -> list[tuple[bytes, int]]:
        """What can be locked now, with its delivery count."""
        found = []
        while True:
            answer = await self.until(
                self.plane.peek_lock(queue, self.token, 0, Client().departure)
            )
            if answer is None:
                return found
            count = '"DeliveryCount": '
            text = answer[0].broker_properties
            found.append((answer[0].body, int(text[text.index(count) + len(count)])))


class Client:
    """One who may leave."""

    def __init__(self) -> None:
        self._gone = asyncio.Event()

    def leave(self) -> None:
        self._gone.set()

    async def departure(self) -> None:
        await self._gone.wait()


@pytest.fixture
def bench() -> Iterator[Bench]:
    return Bench()


@pytest.fixture(params=["whole", "parts"])
def queue(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


async def test_one_message_and_no_more_is_locked(bench: Bench, queue: str) -> None:
    for number in range(8):
        await bench.send(queue, b"%d" % number)
    task = bench.lock(queue, Client())
    await bench.turn()
    assert task.done()
    assert len(await bench.bodies(queue)) == 7


async def test_a_message_that_comes_goes_to_one_who_waits(bench: Bench, queue: str) -> None:
    waiting = [bench.lock(queue, Client()) for _ in range(3)]
    await bench.turn()
    assert not any(task.done() for task in waiting)
    await bench.send(queue, b"one")
    await bench.turn()
    assert sum(task.done() for task in waiting) == 1
    await bench.send(queue, b"two")
    await bench.send(queue, b"three")
    await bench.turn()
    assert all(task.done() for task in waiting)
    assert await bench.bodies(queue) == []


async def test_one_who_left_gets_nothing(bench: Bench, queue: str) -> None:
    client = Client()
    task = bench.lock(queue, client)
    await bench.turn()
    client.leave()
    await bench.turn()
    assert task.result() is None
    await bench.send(queue, b"kept")
    assert await bench.bodies(queue) == [(b"kept", 1)]


@pytest.mark.parametrize("steps", range(6))
async def test_a_message_on_its_way_to_one_who_leaves_goes_back(
    bench: Bench, queue: str, steps: int
) -> None:
    """Whenever the client goes: it has the message, or the message is there for others."""
    client = Client()
    task = bench.lock(queue, client)
    await bench.turn()
    entity = bench.plane.sendable(queue, bench.token)
    payload = encode_message(b"kept", SentProperties(), {})
    sending = asyncio.ensure_future(bench.plane.send(entity, [payload]))
    for _ in range(steps):
        await asyncio.sleep(0)
        bench.bus.scheduler.run()
    client.leave()
    await bench.turn()
    assert sending.done() and task.done()
    left = await bench.bodies(queue)
    if task.result() is None:
        assert left == [(b"kept", 1)], "it is back at once, and was not counted"
    else:
        assert left == []


async def test_a_request_that_is_cancelled_gives_its_message_back(bench: Bench, queue: str) -> None:
    await bench.send(queue, b"kept")
    task = bench.lock(queue, Client())
    await asyncio.sleep(0)
    bench.bus.scheduler.run()
    task.cancel()
    await bench.turn()
    assert task.cancelled()
    assert await bench.bodies(queue) == [(b"kept", 1)]


async def test_a_wait_of_no_time_ends_when_all_have_answered(bench: Bench, queue: str) -> None:
    task = bench.lock(queue, Client(), 0)
    await bench.turn()
    assert task.result() is None


async def test_receive_and_delete_answers_when_the_message_is_gone(
    bench: Bench, queue: str
) -> None:
    await bench.send(queue, b"once")
    work = bench.plane.receive_and_delete(queue, bench.token, 0, Client().departure)
    received = await bench.until(work)
    assert isinstance(received, Received)
    assert (received.body, "LockToken" in received.broker_properties) == (b"once", False)
    assert await bench.bodies(queue) == []


async def test_locks_are_settled_once(bench: Bench, queue: str) -> None:
    await bench.send(queue, b"work")
    answer = await bench.until(bench.plane.peek_lock(queue, bench.token, 0, Client().departure))
    assert answer is not None
    _, lock = answer
    assert await bench.until(bench.plane.renew(queue, bench.token, lock)) > 0
    await bench.until(bench.plane.complete(queue, bench.token, lock))
    for operation in (bench.plane.complete, bench.plane.unlock, bench.plane.renew):
        with pytest.raises(MessageLockLost):
            await bench.until(operation(queue, bench.token, lock))


async def test_when_the_server_stops_those_who_wait_are_told(bench: Bench, queue: str) -> None:
    waiting = [bench.lock(queue, Client()) for _ in range(3)]
    await bench.turn()
    bench.bus.gateway.close()
    await bench.turn()
    for task in waiting:
        assert isinstance(task.exception(), Stopping)
    with pytest.raises(Stopping):
        bench.plane.sendable(queue, bench.token)


async def test_strangers_are_not_told_what_there_is(bench: Bench) -> None:
    for path in ("whole", "nothing"):
        with pytest.raises(Unauthorized):
            bench.plane.sendable(path, None)
    with pytest.raises(EntityNotFound):
        bench.plane.sendable("nothing", bench.token)
    with pytest.raises(InvalidOperation):
        bench.plane.sendable("whole/$deadletterqueue", bench.token)
