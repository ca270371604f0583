"""Waiting for memory, for callers that can await: sends over HTTP and in bulk.

Owns the wait of one request until the account has room. AMQP connections do not wait here: reading
from them is paused instead (`reading_turns`).
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final

from partibus.domain.errors import ServerBusy
from partibus.gateway.memory.account import MemoryAccount, Share

BULK_S_MAX: Final = 60.0
"""How long a bulk batch waits for memory; its client sends nothing else in the meantime."""
NO_ROOM: Final = (
    "The messages that wait to be stored have reached the server's memory limit. Send the batch"
    " again in a few seconds; --memory-limit sets the limit."
)


class _Waiting:
    """One request that waits."""

    __slots__ = ("came",)

    def __init__(self) -> None:
        self.came: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def has_room(self) -> None:
        """Memory was freed."""
        if not self.came.done():
            self.came.set_result(None)


async def room_came(memory: MemoryAccount, seconds_max: float) -> bool:
    """Whether there is room, now or within this time."""
    if not memory.is_full:
        return True
    waiting = _Waiting()
    memory.wait(waiting)
    try:
        async with asyncio.timeout(seconds_max):
            await waiting.came
    except TimeoutError:
        return False
    finally:
        memory.forget(waiting)
    return True


@contextlib.asynccontextmanager
async def held_until_stored(memory: MemoryAccount, byte_count: int) -> AsyncIterator[None]:
    """Wait for room for a batch, and count it until its messages are stored."""
    if not await room_came(memory, BULK_S_MAX):
        raise ServerBusy(NO_ROOM)
    share = Share(memory)
    share.update(byte_count, 0, 0)
    try:
        yield
    finally:
        share.update(0, 0, 0)
