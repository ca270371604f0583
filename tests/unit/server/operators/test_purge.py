"""Purge: until nothing waits, up to a limit, around what is down."""

import asyncio
from collections.abc import Callable

import pytest

from partibus.domain.errors import ArgumentError, StoreUnavailable
from partibus.fragment.commands import Command, Purge, SubQueueType
from partibus.server.operators.purge import CHUNK_MESSAGES, PurgeRun


class FakeFragment:
    """Holds a number of messages and gives them up as it is asked."""

    def __init__(self, index: int, count: int, *, fails_after: int | None = None) -> None:
        self.index = index
        self.fragment_id = index + 1
        self.count = count
        self.is_available = True
        self.commands: list[Purge] = []
        self._fails_after = fails_after

    def submit(self, command: Command) -> None:
        assert isinstance(command, Purge)
        self.commands.append(command)
        answer: Callable[[], None]
        if self._fails_after is not None and len(self.commands) > self._fails_after:
            answer = lambda: command.port.failed(StoreUnavailable())  # noqa: E731
        else:
            taken = min(self.count, command.message_count_max)
            self.count -= taken
            answer = lambda: command.port.done(taken)  # noqa: E731
        asyncio.get_running_loop().call_soon(answer)


def fragments(*counts: int) -> list[FakeFragment]:
    return [FakeFragment(index, count) for index, count in enumerate(counts)]


async def run(parts: list[FakeFragment], limit: int | None = None) -> PurgeRun:
    purge = PurgeRun("dead-letter", 42, limit)
    await purge.empty(parts)  # type: ignore[arg-type]
    return purge


async def test_everything_goes_in_portions() -> None:
    parts = fragments(2 * CHUNK_MESSAGES + 1, 0, 7)
    purge = await run(parts)
    assert (purge.count, purge.is_finished, purge.unavailable) == (2008, True, [])
    assert [part.count for part in parts] == [0, 0, 0]
    assert [len(part.commands) for part in parts] == [3, 1, 1]
    command = parts[0].commands[0]
    assert (command.subqueue, command.before_ms) == (SubQueueType.DEAD_LETTER, 42)


async def test_a_limit_leaves_the_rest() -> None:
    parts = fragments(10, 10, 10)
    purge = await run(parts, limit=15)
    assert (purge.count, purge.is_finished) == (15, False)
    assert [part.count for part in parts] == [0, 5, 10]
    again = await run(parts, limit=16)
    assert (again.count, again.is_finished) == (15, True)


async def test_what_is_down_is_passed_over_and_named() -> None:
    parts = fragments(5, 5, 5)
    parts[1].is_available = False
    purge = await run(parts)
    assert (purge.count, purge.unavailable) == (10, [1])


async def test_what_was_deleted_before_a_store_failed_is_counted() -> None:
    parts = [FakeFragment(0, 2 * CHUNK_MESSAGES, fails_after=1), FakeFragment(1, 3)]
    purge = await run(parts)
    assert (purge.count, purge.unavailable) == (CHUNK_MESSAGES + 3, [0])


async def test_when_all_are_down_it_fails() -> None:
    parts = fragments(5, 5)
    for part in parts:
        part.is_available = False
    with pytest.raises(StoreUnavailable):
        await run(parts)


@pytest.mark.parametrize(("subqueue", "limit"), [("everything", None), ("active", 0)])
def test_nonsense_is_refused(subqueue: str, limit: int | None) -> None:
    with pytest.raises(ArgumentError):
        PurgeRun(subqueue, 0, limit)
