"""Messages that are sent in bulk.

Owns the storing of one batch: each message is read as from any sender, goes to the fragment of its
key or to the next in turn, and counts as accepted when it is durable. Refused messages are reported
row by row and do not hold up the others. Runs on the event loop.
"""

import asyncio
from collections.abc import Sequence

from partibus.domain.address import parse_address
from partibus.domain.errors import BusError
from partibus.fragment.message import NewMessage
from partibus.gateway.links.submission import Submissions
from partibus.gateway.namespace import Entity, require_sendable, require_session_ids, too_large
from partibus.gateway.router import Router
from partibus.gateway.tracing import Tracing
from partibus.message.envelope import to_stored

Refusals = dict[int, BusError]


class Batch:
    """One batch of messages, until all of them are stored or refused."""

    def __init__(
        self,
        entity: Entity,
        path: str,
        start: int,
        keyless_here: bool = False,
        tracing: Tracing | None = None,
    ) -> None:
        require_sendable(entity, parse_address(path))
        self._entity = entity
        self.path = entity.record.path
        self._tracing = tracing
        near = [f for f in entity.fragments if f.local is not None] if keyless_here else ()
        self.router = Router(entity.fragments, start, True, near)
        self._missing = 0
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.refusals: Refusals = {}
        self.duplicate_count = 0
        """Messages that were duplicates (DUP-1)."""

    async def send(self, payloads: Sequence[bytes]) -> Refusals:
        """Store them; returns the rows that were refused, and why."""
        submissions = Submissions(self, self._entity.fragments, self._tracing)
        for row, payload in enumerate(payloads):
            try:
                message = stored_form(self._entity, payload)
                self._missing += submissions.route([message], row, len(message.body))
            except BusError as error:
                self.refusals[row] = error
        submissions.submit()
        if self._missing:
            await self._over
        return self.refusals

    # --- from the fragments -----------------------------------------------------------------

    def confirmed(
        self, requests: Sequence[int], first_sequence: int, dropped: Sequence[int] = ()
    ) -> None:
        """Rows are durable, or were before (DUP-1)."""
        self.duplicate_count += len(dropped)
        self._ended(len(requests))

    def refused(self, requests: Sequence[int], error: BusError) -> None:
        """Rows are not stored."""
        self.refusals.update(dict.fromkeys(requests, error))
        self._ended(len(requests))

    def _ended(self, count: int) -> None:
        self._missing -= count
        if not self._missing:
            self._over.set_result(None)


def stored_form(entity: Entity, payload: bytes) -> NewMessage:
    """A message in the stored form of an entity; raises if the entity cannot accept it."""
    if len(payload) > entity.message_bytes_max:
        raise too_large(entity)
    message = to_stored(payload, entity.spec.requires_duplicate_detection)
    require_session_ids(entity, [message])
    return message
