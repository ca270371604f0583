"""Messages in bulk on their way in.

Owns the way of one batch: each message is read as from any sender, goes to the fragment of its
key or to the next in turn, and is counted as accepted when it is durable. What is refused is
told row by row and holds nobody else up. Runs on the event loop.
"""

import asyncio
from collections.abc import Sequence

from partibus.domain.address import parse_address
from partibus.domain.errors import BusError, StoreUnavailable
from partibus.fragment.commands import Enqueue
from partibus.fragment.handle import Fragment
from partibus.fragment.message import NewMessage, key_of
from partibus.gateway.links.submission import fragment_unavailable
from partibus.gateway.namespace import Entity, require_sendable, require_session_ids, too_large
from partibus.gateway.router import Router
from partibus.message.envelope import to_stored

Refusals = dict[int, BusError]


class Batch:
    """One batch of messages, until all of them are stored or refused."""

    def __init__(self, entity: Entity, path: str, start: int) -> None:
        require_sendable(entity, parse_address(path))
        self._entity = entity
        self._router = Router(entity.fragments, start, True)
        self._missing = 0
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.refusals: Refusals = {}
        self.duplicate_count = 0
        """Messages that were there already (DUP-1)."""

    async def send(self, payloads: Sequence[bytes]) -> Refusals:
        """Store them; gives the rows that were refused, and why."""
        groups: dict[tuple[int, bool], Part] = {}
        for row, payload in enumerate(payloads):
            try:
                self._put(row, payload, groups)
            except BusError as error:
                self.refusals[row] = error
        self._missing = sum(len(part.requests) for part in groups.values())
        for part in groups.values():
            part.submit()
        if self._missing:
            await self._over
        return self.refusals

    def _put(self, row: int, payload: bytes, groups: dict[tuple[int, bool], "Part"]) -> None:
        entity = self._entity
        if len(payload) > entity.message_bytes_max:
            raise too_large(entity)
        message = to_stored(payload, entity.spec.requires_duplicate_detection)
        if entity.spec.requires_session:
            require_session_ids(entity, [message])
        key = key_of(message)
        fragment = self._router.keyed(key) if key is not None else self._router.next_keyless()
        assert fragment is not None
        place = (fragment.index, key is not None)
        part = groups.get(place)
        if part is None:
            part = groups[place] = Part(self, fragment, key is not None)
        part.messages.append(message)
        part.requests.append(row)

    def stored(self, count: int) -> None:
        """So many rows have their end."""
        self._missing -= count
        if not self._missing:
            self._over.set_result(None)

    def refuse(self, rows: Sequence[int], error: BusError) -> None:
        """These rows are not stored."""
        self.refusals.update(dict.fromkeys(rows, error))
        self.stored(len(rows))

    def another(self, tried: frozenset[int]) -> Fragment | None:
        """A fragment for messages without a key that was not tried yet."""
        return self._router.next_keyless(tried)

    def unavailable(self, fragment: Fragment) -> StoreUnavailable:
        """The error for messages whose key binds them to a fragment that is down."""
        return fragment_unavailable(fragment, self._entity.record.path)


class Part:
    """Messages of a batch for one fragment, all with a key or all without."""

    def __init__(self, batch: Batch, fragment: Fragment, is_keyed: bool) -> None:
        self._batch = batch
        self._fragment = fragment
        self._is_keyed = is_keyed
        self._tried: frozenset[int] = frozenset()
        self.messages: list[NewMessage] = []
        self.requests: list[int] = []

    def submit(self) -> None:
        """Hand over to the fragment."""
        size = sum([len(message.body) for message in self.messages])
        self._fragment.submit(Enqueue(self, self.messages, self.requests, size))

    def confirmed(
        self, requests: Sequence[int], first_sequence: int, dropped: Sequence[int] = ()
    ) -> None:
        """All is durable, or was before (DUP-1)."""
        self._batch.duplicate_count += len(dropped)
        self._batch.stored(len(requests))

    def refused(self, requests: Sequence[int], error: BusError) -> None:
        """What is bound to no fragment goes to another while its store is down (SEED-40)."""
        if not isinstance(error, StoreUnavailable):
            self._batch.refuse(requests, error)
        elif self._is_keyed:
            self._batch.refuse(requests, self._batch.unavailable(self._fragment))
        else:
            self._tried |= {self._fragment.index}
            other = self._batch.another(self._tried)
            if other is None:
                self._batch.refuse(requests, error)
            else:
                self._fragment = other
                self.submit()
