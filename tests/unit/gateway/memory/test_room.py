"""Requests that wait for memory, and count while they hold some."""

import asyncio

import pytest

from partibus.domain.errors import ServerBusy
from partibus.gateway.memory import room as memory_room
from partibus.gateway.memory.account import MemoryAccount, Share
from partibus.gateway.memory.room import held_until_stored, room_came

LIMIT = 1000


@pytest.fixture
def memory() -> MemoryAccount:
    return MemoryAccount(LIMIT)


@pytest.fixture
def others(memory: MemoryAccount) -> Share:
    share = Share(memory)
    share.update(LIMIT, 0, 0)
    return share


async def test_nobody_waits_while_there_is_room(memory: MemoryAccount) -> None:
    assert await room_came(memory, 0)


async def test_room_that_comes_ends_the_wait(memory: MemoryAccount, others: Share) -> None:
    waiting = asyncio.ensure_future(room_came(memory, 3600))
    await asyncio.sleep(0)
    assert not waiting.done()
    others.update(LIMIT // 2, 0, 0)
    assert await waiting


async def test_who_has_given_up_is_not_called(memory: MemoryAccount, others: Share) -> None:
    assert not await room_came(memory, 0)
    waiting = asyncio.ensure_future(room_came(memory, 3600))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert not memory._waiting
    others.update(0, 0, 0)


async def test_a_batch_counts_until_it_is_stored(memory: MemoryAccount) -> None:
    async with held_until_stored(memory, 300):
        assert memory.unstored_bytes == 300
    with pytest.raises(ZeroDivisionError):
        async with held_until_stored(memory, 300):
            raise ZeroDivisionError
    assert memory.held_bytes == 0


async def test_a_batch_without_room_is_refused(
    memory: MemoryAccount, others: Share, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_room, "BULK_S_MAX", 0)
    with pytest.raises(ServerBusy) as refused:
        async with held_until_stored(memory, 1):
            raise AssertionError("there is no room")
    assert refused.value.retryable
    assert "--memory-limit" in refused.value.text
    assert others.unstored_bytes == memory.held_bytes
