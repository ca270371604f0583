"""One send over HTTP.

Owns the wait for durability: the request is answered when every part of it is stored, or by the
first refusal. The gateway's router chooses the fragments, and its submission handles a store that
is down, exactly as for a sending link.
"""

import asyncio
from collections.abc import Sequence

from partibus.domain.errors import BusError
from partibus.fragment.message import NewMessage
from partibus.gateway.gateway import Gateway
from partibus.gateway.links.submission import Submissions
from partibus.gateway.namespace import Entity
from partibus.gateway.router import Router


class Sending:
    """The messages of one request."""

    __slots__ = ("_ended", "_entity", "_missing", "_tracing", "path", "router")

    def __init__(self, gateway: Gateway, entity: Entity) -> None:
        self._entity = entity
        splits = gateway.namespace.profile.splits_batches
        self.router = Router(entity.fragments, gateway.random_start(), splits)
        self.path = entity.record.path
        self._tracing = gateway.namespace.tracing
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._missing = 0

    async def send(self, messages: list[NewMessage]) -> None:
        """Return when all are durable; raise when some were refused."""
        submissions = Submissions(self, self._entity.fragments, self._tracing)
        size = sum([len(message.body) for message in messages])
        self._missing = submissions.route(messages, 0, size)
        submissions.submit()
        await self._ended

    # --- from the fragments -----------------------------------------------------------------

    def confirmed(
        self, requests: Sequence[int], first_sequence: int, dropped: Sequence[int] = ()
    ) -> None:
        """A part is durable."""
        self._missing -= len(requests)
        if self._missing == 0 and not self._ended.done():
            self._ended.set_result(None)

    def refused(self, requests: Sequence[int], error: BusError) -> None:
        """A part was not stored."""
        if not self._ended.done():
            self._ended.set_exception(error)
