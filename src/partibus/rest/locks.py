"""Locks by token over HTTP: complete, unlock and renew, each awaited (HTP-3).

Owns the look-up of a token's fragment. A lock is addressed by its token alone, over any connection
and any worker of the server (LCK-6); a token that no fragment of the entity has issued is a lost
lock.
"""

import asyncio
import uuid
from collections.abc import Sequence

from partibus.domain.errors import BusError, MessageLockLost
from partibus.fragment.commands import Outcome, Renew, Settle, SubQueueType
from partibus.fragment.handle import Fragment
from partibus.gateway.gateway import Gateway
from partibus.gateway.namespace import Entity


def find_lock(gateway: Gateway, entity: Entity, token: uuid.UUID) -> tuple[Fragment, int]:
    """The fragment of a lock, and its number there."""
    for fragment in entity.fragments:
        number = gateway.token_prefix(fragment.fragment_id).number_of(token)
        if number is not None:
            return fragment, number
    raise MessageLockLost


async def settle(fragment: Fragment, subqueue: SubQueueType, number: int, outcome: Outcome) -> None:
    """Settle one lock; returns when that is durable."""
    answer = _Answer()
    fragment.submit(Settle(answer, None, subqueue, [number], outcome, None))
    await answer.ended


async def renew(fragment: Fragment, subqueue: SubQueueType, number: int) -> int:
    """Extend one lock; returns until when it holds."""
    answer = _Answer()
    fragment.submit(Renew(answer, subqueue, [number]))
    return await answer.ended


class _Answer:
    """The port of one command about one lock."""

    __slots__ = ("ended",)

    def __init__(self) -> None:
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def settled(self, request: object, lost: Sequence[int], error: BusError | None) -> None:
        if error is not None:
            self.failed(error)
        else:
            self._end(0 if lost else 1)

    def renewed(self, until_ms: Sequence[int]) -> None:
        self._end(until_ms[0])

    def failed(self, error: BusError) -> None:
        if not self.ended.done():
            self.ended.set_exception(error)

    def _end(self, result: int) -> None:
        """Zero means that the lock was lost."""
        if result == 0:
            self.failed(MessageLockLost())
        elif not self.ended.done():
            self.ended.set_result(result)
