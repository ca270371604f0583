"""Purge: deletes every waiting message of a subqueue, fragment by fragment, on the server.

Owns the repetition of the fragment's own `Purge` command until nothing old enough waits. Locked,
deferred and scheduled messages are skipped, and so are fragments whose store is down, which are
named in the result. Called by the administration.
"""

from collections.abc import Sequence
from typing import Final

from partibus.bulk.answers import Answer
from partibus.domain.errors import ArgumentError, StoreUnavailable
from partibus.fragment.commands import Purge, SubQueueType
from partibus.fragment.handle import Fragment

SUBQUEUES: Final = {
    "active": SubQueueType.MAIN,
    "dead-letter": SubQueueType.DEAD_LETTER,
    "transfer-dead-letter": SubQueueType.TRANSFER_DEAD_LETTER,
}
CHUNK_MESSAGES: Final = 1000
"""Messages that one command deletes: a turn of the loop stays in the low milliseconds."""


class PurgeRun:
    """One purge while it visits the fragments of an entity."""

    def __init__(self, subqueue_name: str, before_ms: int, limit: int | None) -> None:
        subqueue = SUBQUEUES.get(subqueue_name)
        if subqueue is None:
            raise ArgumentError(
                f"'{subqueue_name}' is not a subqueue; allowed: {', '.join(SUBQUEUES)}."
            )
        if limit is not None and limit < 1:
            raise ArgumentError(f"The limit is {limit}; it must be at least 1, or left out.")
        self._subqueue = subqueue
        self._before_ms = before_ms
        self._limit = limit
        self.count = 0
        """Messages deleted so far."""
        self.unavailable: list[int] = []
        """Indexes of the fragments that could not be emptied."""

    @property
    def is_finished(self) -> bool:
        """Whether nothing is left to delete, as far as the fragments answer."""
        return self._limit is None or self.count < self._limit

    async def empty(self, fragments: Sequence[Fragment]) -> None:
        """Delete until nothing waits or the limit is reached; an error if all stores are down."""
        for fragment in fragments:
            if not self.is_finished:
                return
            try:
                await self._empty_one(fragment)
            except StoreUnavailable as error:
                self.unavailable.append(fragment.index)
                if len(self.unavailable) == len(fragments):
                    raise StoreUnavailable(f"No fragment can be purged: {error.text}") from error

    async def _empty_one(self, fragment: Fragment) -> None:
        """Repeat until a command deletes fewer messages than its limit."""
        if not fragment.is_available:
            raise StoreUnavailable
        while self.is_finished:
            size = CHUNK_MESSAGES
            if self._limit is not None:
                size = min(size, self._limit - self.count)
            answer = Answer[int]()
            fragment.submit(Purge(answer, self._subqueue, size, self._before_ms))
            count = await answer.value
            self.count += count
            if count < size:
                return
