"""Walking over the messages of an entity by peeking.

Owns the walk by sequence number (PEK-9): each request continues after the last message, over one
pair of links, so that a partitioned entity is walked once and in order. Finding the end of a long
queue takes a few requests, not a walk. Called by `peek`, `tail` and `dlq`.
"""

from collections.abc import AsyncIterator
from typing import Final

from partibus.client.management import Management
from partibus.client.message import IncomingMessage
from partibus.domain.sequence import fragment_of

ROUND_MESSAGES_MAX: Final = 100


class Walk:
    """The position of a walk."""

    def __init__(
        self, management: Management, from_number: int = 0, session_id: str | None = None
    ) -> None:
        self._management = management
        self._next = from_number
        self._session_id = session_id

    async def step(self, most: int = ROUND_MESSAGES_MAX) -> list[IncomingMessage]:
        """The next messages; empty at the end, and more when some have arrived since."""
        found = await self._management.peek(self._next, most, self._session_id)
        if found:
            self._next = found[-1].sequence_number + 1
        return found

    async def skip(self) -> None:
        """Go to the end."""
        if await self._leap():
            return
        while await self.step():
            pass

    async def _leap(self) -> bool:
        """Find the last number by bisection; False if several partitions number messages."""
        low, high = self._next, max(self._next, 1)
        while found := await self._management.peek(high, 1, self._session_id):
            if fragment_of(found[-1].sequence_number):
                return False
            low = found[-1].sequence_number + 1
            high = low * 2
        while low < high:
            middle = (low + high) // 2
            found = await self._management.peek(middle, 1, self._session_id)
            if found:
                low = found[-1].sequence_number + 1
            else:
                high = middle
        self._next = low
        return True


async def peeked(walk: Walk, count: int | None) -> AsyncIterator[IncomingMessage]:
    """Messages until `count` or the end is reached."""
    left = count
    while left is None or left > 0:
        most = ROUND_MESSAGES_MAX if left is None else min(left, ROUND_MESSAGES_MAX)
        found = await walk.step(most)
        if not found:
            return
        for message in found:
            yield message
        if left is not None:
            left -= len(found)
