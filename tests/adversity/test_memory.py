"""A deep backlog costs little memory, no speed, and no long start.

Numbers are printed; what is asserted are memory and processor time of the server as the
kernel counts them, never the time on the clock.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator

import pytest

from adversity.conftest import QUEUES
from adversity.gauge import MEGABYTE, cpu_seconds, resident_bytes
from adversity.letters import letter
from adversity.load import LoadClient, load_client
from adversity.victim import Victim
from partibus.amqp.delivery import modified
from partibus.client.links import ReceivedMessage

DEEP, EMPTY, _ = QUEUES
BYTES_PER_MESSAGE_MAX = 200
# What the process may take for buffers of any number of messages.
SLACK_BYTES = 12 * MEGABYTE
# 2100-01-01: it does not come during a test.
NEVER_DUE_MS = 4_102_444_800_000
DEFER = modified(False, True)
PROBE_COUNT = 6_000
SETTLED_TOGETHER = 500

PutAside = Callable[[Victim, int], Coroutine[None, None, None]]
Letters = Iterator[tuple[object, bytes, int]]


def numbered(prefix: str, count: int, size: int, due_ms: int = 0) -> Letters:
    return ((None, letter(f"{prefix}.{number}", size, due_ms=due_ms), 0) for number in range(count))


async def post(victim: Victim, queue: str, letters: Letters) -> None:
    async with load_client(victim) as client:
        pipeline = await client.pipeline(queue)
        await pipeline.post(letters)
        assert not pipeline.refusals


async def take(
    client: LoadClient, queue: str, count: int, outcome: bytes | None = None
) -> set[str]:
    """Receive so many and settle each with the outcome, or with none: they are completed."""
    inbox = await client.inbox(queue)
    names: set[str] = set()
    pending: list[ReceivedMessage] = []
    while len(names) < count:
        for received, message in await inbox.some():
            assert received.name not in names, f"{received.name} came twice"
            names.add(received.name)
            pending.append(message)
        if len(pending) >= SETTLED_TOGETHER or len(names) >= count:
            settling, pending = pending, []
            await (inbox.settle(settling) if outcome is None else inbox.settle(settling, outcome))
    return names


async def count_by_receiving(victim: Victim, count: int) -> None:
    async with load_client(victim) as client:
        names = await take(client, DEEP, count)
        assert len(names) == count
        inbox = await client.inbox(DEEP, credit=1)
        await inbox.drain()
        assert not inbox.taken


def fill_restart_and_empty(victim: Victim, count: int) -> None:
    asyncio.run(post(victim, DEEP, numbered("warm", 2000, 1024)))
    before = resident_bytes(victim.pid)
    asyncio.run(post(victim, DEEP, numbered("deep", count, 1024)))
    growth = resident_bytes(victim.pid) - before
    print(f"{count} messages of 1 KB: {growth / count:.0f} bytes of memory each")
    assert growth < SLACK_BYTES + BYTES_PER_MESSAGE_MAX * count
    assert growth < count * 1024 / 2, "bodies are held in memory"
    cpu_of_start = restart_cost(victim)
    print(f"started again with them for {cpu_of_start:.1f} s of processor time")
    asyncio.run(count_by_receiving(victim, count + 2000))


def restart_cost(victim: Victim) -> float:
    """Kill, start, and tell the processor time until READY."""
    victim.restart()
    return cpu_seconds(victim.pid)


def test_a_backlog_costs_little_memory(server: Victim) -> None:
    fill_restart_and_empty(server, 100_000)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_backlog_of_a_million_costs_little_memory(server: Victim) -> None:
    fill_restart_and_empty(server, 1_000_000)


# --- messages that wait for something else ----------------------------------------------------


async def traffic(victim: Victim, queue: str, prefix: str) -> float:
    """Send, receive and complete; the server's processor time for it."""
    before = cpu_seconds(victim.pid)
    await post(victim, queue, numbered(prefix, PROBE_COUNT, 200))
    async with load_client(victim) as client:
        assert len(await take(client, queue, PROBE_COUNT)) == PROBE_COUNT
    return cpu_seconds(victim.pid) - before


async def defer(victim: Victim, count: int) -> None:
    """Send, receive and defer; a part at a time, so that the queue never grows deep."""
    part = 50_000
    for start in range(0, count, part):
        size = min(part, count - start)
        await post(victim, DEEP, numbered(f"deferred-{start}", size, 100))
        async with load_client(victim) as client:
            assert len(await take(client, DEEP, size, DEFER)) == size


async def schedule(victim: Victim, count: int) -> None:
    await post(victim, DEEP, numbered("scheduled", count, 100, NEVER_DUE_MS))


def compare_costs(victim: Victim, count: int, put_aside: PutAside) -> None:
    asyncio.run(traffic(victim, EMPTY, "warm"))
    asyncio.run(put_aside(victim, count))
    for life in range(2):
        if life:
            print(f"started again for {restart_cost(victim):.1f} s of processor time")
            asyncio.run(traffic(victim, EMPTY, "warm-again"))
        empty = min(asyncio.run(traffic(victim, EMPTY, f"e{life}{turn}")) for turn in range(2))
        deep = min(asyncio.run(traffic(victim, DEEP, f"d{life}{turn}")) for turn in range(2))
        print(f"{PROBE_COUNT} messages: {empty:.2f} s when empty, {deep:.2f} s beside {count}")
        assert deep < 2 * empty + 0.3


@pytest.mark.parametrize("put_aside", [schedule, defer])
def test_messages_set_aside_cost_no_speed(server: Victim, put_aside: PutAside) -> None:
    compare_costs(server, 50_000 if put_aside is schedule else 20_000, put_aside)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("put_aside", [schedule, defer])
def test_a_million_set_aside_cost_no_speed(server: Victim, put_aside: PutAside) -> None:
    compare_costs(server, 1_000_000, put_aside)
