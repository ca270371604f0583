"""The memory that a bulk read uses until its client has received the data.

Owns the part of one stream in the server's memory account: the batch that is being read and the one
that is being sent. When data waiting for clients fills half of the account, a stream continues only
after some of it was received; before that, its batches become smaller. Everything here runs on the
event loop; the thread of the stream only reports that a batch was received. Called by the Flight
server.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from partibus.bulk.answers import Messages
from partibus.domain.errors import ServerBusy
from partibus.gateway.memory.account import MemoryAccount, Share

LOOK_S: Final = 0.02
"""How often a waiting stream checks for room."""
WAIT_S_MAX: Final = 60.0
NO_ROOM: Final = (
    "Data that clients have not read yet has reached the server's memory limit. Continue in a few"
    " seconds; --memory-limit sets the limit."
)


class Reading:
    """One stream, from its first batch to its end."""

    def __init__(self, memory: MemoryAccount) -> None:
        self._memory = memory
        self._share = Share(memory)
        self._is_over = False

    async def batch(self, read: Callable[[int], Awaitable[Messages]], most_bytes: int) -> Messages:
        """The next messages, when there is room for them; they count from now on."""
        if not await self._room_came():
            raise ServerBusy(NO_ROOM)
        messages, bodies = await read(max(1, self._memory.pull(most_bytes)))
        if not self._is_over:
            self._hold(held_bytes(bodies))
        return messages, bodies

    def taken(self, byte_count: int) -> None:
        """The client has received a batch."""
        if not self._is_over:
            self._hold(-byte_count)

    def end(self) -> None:
        """The stream is over, or its client is gone."""
        self._is_over = True
        self._share.update(0, 0, 0)

    def _hold(self, byte_count: int) -> None:
        self._share.update(0, 0, self._share.unsent_bytes + byte_count)

    async def _room_came(self) -> bool:
        """Whether there is room; a stream that uses nothing is not what fills the memory."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + WAIT_S_MAX
        while self._share.unsent_bytes and 2 * self._memory.unsent_bytes > self._memory.limit_bytes:
            if self._is_over or clock() > deadline:
                return False
            await asyncio.sleep(LOOK_S)
        return True


def held_bytes(bodies: Sequence[bytes]) -> int:
    """The memory of a batch's bodies, both as they are and in the batch made of them."""
    return 2 * sum(map(len, bodies))
