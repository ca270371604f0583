"""What reads in bulk hold in memory."""

import asyncio
from collections.abc import Sequence

import pytest

from partibus.bulk import reading as reading_module
from partibus.bulk.answers import Messages
from partibus.bulk.reading import Reading, held_bytes
from partibus.domain.errors import ServerBusy
from partibus.gateway.memory.account import MemoryAccount

MIB = 1 << 20


class Source:
    """Gives as many bytes as it is asked for."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    async def read(self, most_bytes: int) -> Messages:
        self.asked.append(most_bytes)
        bodies: Sequence[bytes] = [bytes(most_bytes)]
        return [], bodies


async def test_what_is_read_is_held_until_the_client_has_taken_it() -> None:
    memory = MemoryAccount(100 * MIB)
    stream, source = Reading(memory), Source()
    _, bodies = await stream.batch(source.read, MIB)
    assert memory.unsent_bytes == 2 * MIB
    await stream.batch(source.read, MIB)
    assert memory.unsent_bytes == 4 * MIB
    stream.taken(held_bytes(bodies))
    assert memory.unsent_bytes == 2 * MIB
    stream.end()
    assert memory.unsent_bytes == 0


async def test_what_comes_after_the_end_is_not_held() -> None:
    memory = MemoryAccount(100 * MIB)
    stream, source = Reading(memory), Source()
    going = asyncio.Event()

    async def late(most_bytes: int) -> Messages:
        await going.wait()
        return await source.read(most_bytes)

    coming = asyncio.create_task(stream.batch(late, MIB))
    await asyncio.sleep(0)
    stream.end()
    going.set()
    await coming
    stream.taken(2 * MIB)
    assert memory.held_bytes == 0


async def test_batches_become_smaller_and_streams_wait_when_clients_do_not_read() -> None:
    memory = MemoryAccount(16 * MIB)
    streams, source = [Reading(memory) for _ in range(4)], Source()
    for stream in streams:
        await stream.batch(source.read, 2 * MIB)
    assert source.asked == [2 * MIB, *[2 * MIB // 16] * 3]
    filler = Reading(memory)
    await filler.batch(source.read, 32 * MIB)
    assert 2 * memory.unsent_bytes > memory.limit_bytes
    waiting = asyncio.create_task(streams[0].batch(source.read, 2 * MIB))
    count = len(source.asked)
    await asyncio.sleep(0)
    assert len(source.asked) == count, "it holds something already and waits"
    filler.end()
    await waiting
    assert len(source.asked) == count + 1


async def test_a_stream_that_finds_no_room_is_told_to_come_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reading_module, "WAIT_S_MAX", -1.0)
    memory = MemoryAccount(MIB)
    stream, source = Reading(memory), Source()
    await stream.batch(source.read, MIB)
    with pytest.raises(ServerBusy, match="memory limit"):
        await stream.batch(source.read, MIB)
    other = Reading(memory)
    await other.batch(source.read, MIB)
    assert source.asked[-1] == MIB // 16, "one that holds nothing gets a little"
