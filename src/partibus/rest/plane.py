"""The operations of the data plane: who may do what, on which entity.

Owns the order of checks (address, rights, entity, its state) and the operations themselves, in
terms of messages. It must never deal with HTTP, except for a token's text: `routes` owns forms and
statuses. One for each process, made by the node; once the gateway has closed it submits nothing
more.
"""

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from typing import Final

from partibus.control.access.access import require
from partibus.domain.address import Address, parse_address
from partibus.domain.entity import EntityKind
from partibus.domain.errors import BusError, EntityNotFound, InvalidOperation, Unauthorized
from partibus.domain.rights import Rights
from partibus.fragment.commands import Outcome, SubQueueType
from partibus.gateway.fault_injection import throttled
from partibus.gateway.gateway import Gateway
from partibus.gateway.memory.account import MemoryAccount
from partibus.gateway.namespace import (
    Entity,
    require_receivable,
    require_sendable,
    require_session_ids,
    too_large,
)
from partibus.message.envelope import to_stored
from partibus.message.lock_token import pack_number
from partibus.message.subqueues import subqueue_of, subqueue_path
from partibus.rest.error_mapping import Stopping
from partibus.rest.locks import find_lock, renew, settle
from partibus.rest.message import Received, decode_message
from partibus.rest.reception import Found, Reception
from partibus.rest.sending import Sending

ANSWER_S_MAX: Final = 5.0
"""A receive that does not wait ends once every fragment has answered; an unreachable one does not
delay it longer than this."""

Departure = Callable[[], Awaitable[None]]
"""Returns when the client has gone."""


class DataPlane:
    """What clients do with messages over HTTP."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._receptions: set[Reception] = set()
        self._is_closed = False
        gateway.at_close(self._close)

    def message_bytes_max(self, entity: Entity) -> int:
        """The size limit of one request to an entity."""
        return min(entity.message_bytes_max, self._gateway.namespace.profile.http_message_bytes_max)

    @property
    def memory(self) -> MemoryAccount:
        """The memory account of all clients."""
        return self._gateway.memory

    # --- send -------------------------------------------------------------------------------

    def sendable(self, path: str, token: str | None) -> Entity:
        """The entity, if the token allows sending there now."""
        address, entity = self._resolve(path, token, Rights.SEND)
        require_sendable(entity, address)
        faults, ran_ms = self._gateway.faults, self._gateway.monotonic_ms()
        if faults is not None and faults.refuses(entity.record.path, ran_ms):
            raise throttled()
        return entity

    async def send(self, entity: Entity, payloads: list[bytes]) -> None:
        """Store messages, all or none; returns when they are durable.

        The payloads are removed from their list: during the write, memory holds each only once.
        """
        if sum(map(len, payloads)) > self.message_bytes_max(entity):
            raise too_large(entity)
        detects = entity.spec.requires_duplicate_detection
        messages = [to_stored(payload, detects) for payload in payloads]
        payloads.clear()
        require_session_ids(entity, messages)
        await Sending(self._gateway, entity).send(messages)

    # --- receive ------------------------------------------------------------------------------

    async def peek_lock(
        self, path: str, token: str | None, timeout_s: float, departure: Departure
    ) -> tuple[Received, uuid.UUID] | None:
        """Lock a message and return it; None when none came in time."""
        found = await self._receive(path, token, timeout_s, departure)
        if found is None:
            return None
        lock = _token(found)
        return decode_message(found.body, found.held, found.sequence, lock, True), lock

    async def receive_and_delete(
        self, path: str, token: str | None, timeout_s: float, departure: Departure
    ) -> Received | None:
        """Receive and delete a message; None when none came in time."""
        found = await self._receive(path, token, timeout_s, departure)
        if found is None:
            return None
        # Decoded first: anything that can fail must fail while the message still exists.
        received = decode_message(found.body, found.held, found.sequence, _token(found), False)
        await settle(found.fragment, found.subqueue, found.held.token, Outcome.COMPLETE)
        return received

    async def _receive(
        self, path: str, token: str | None, timeout_s: float, departure: Departure
    ) -> Found | None:
        entity, subqueue = self._receivable(path, token)
        reception = Reception(self._gateway, entity.fragments, subqueue, timeout_s > 0)
        self._receptions.add(reception)
        gone = asyncio.ensure_future(departure())
        is_wanted = False
        try:
            reception.begin()
            await asyncio.wait(
                (reception.found, gone),
                timeout=timeout_s or ANSWER_S_MAX,
                return_when=asyncio.FIRST_COMPLETED,
            )
            is_wanted = not gone.done()
            if self._is_closed and reception.found.cancelled():
                raise Stopping
            found = reception.found.result() if reception.found.done() and is_wanted else None
            if found is not None:
                self._trace_delivery(entity, subqueue, found)
            return found
        finally:
            gone.cancel()
            self._receptions.discard(reception)
            if not self._is_closed:
                reception.close(keeps_found=is_wanted)

    def _trace_delivery(self, entity: Entity, subqueue: SubQueueType, found: Found) -> None:
        """A message is delivered to a client, as on a link; it is settled by its token, if at
        all."""
        tracing = self._gateway.namespace.tracing
        if tracing is not None:
            path, now_ms = subqueue_path(entity.record.path, subqueue), self._gateway.now_ms()
            index, held = found.fragment.index, found.held
            traced = tracing.delivered(path, index, [held], [found.body], now_ms)
            tracing.remember(found.fragment.fragment_id, traced)

    # --- settle -------------------------------------------------------------------------------

    async def complete(self, path: str, token: str | None, lock: uuid.UUID) -> None:
        """Remove a locked message."""
        await self._settle(path, token, lock, Outcome.COMPLETE)

    async def unlock(self, path: str, token: str | None, lock: uuid.UUID) -> None:
        """Release a locked message to all receivers; the delivery counts (SEED-100)."""
        await self._settle(path, token, lock, Outcome.ABANDON)

    async def renew(self, path: str, token: str | None, lock: uuid.UUID) -> int:
        """Extend a lock from now; returns until when (LCK-3)."""
        entity, subqueue = self._receivable(path, token)
        fragment, number = find_lock(self._gateway, entity, lock)
        return await renew(fragment, subqueue, number)

    async def _settle(
        self, path: str, token: str | None, lock: uuid.UUID, outcome: Outcome
    ) -> None:
        entity, subqueue = self._receivable(path, token)
        fragment, number = find_lock(self._gateway, entity, lock)
        tracing = self._gateway.namespace.tracing
        if tracing is None:
            await settle(fragment, subqueue, number, outcome)
            return
        traced = tracing.settling(fragment.fragment_id, [number])
        over = tracing.settlement(subqueue_path(entity.record.path, subqueue), traced, outcome)
        try:
            await settle(fragment, subqueue, number, outcome)
        except BusError as error:
            over(error)
            raise
        over(None)

    # --- checks ---------------------------------------------------------------------------------

    def _receivable(self, path: str, token: str | None) -> tuple[Entity, SubQueueType]:
        address, entity = self._resolve(path, token, Rights.LISTEN)
        if entity.record.kind is EntityKind.TOPIC:
            raise InvalidOperation(
                f"Messages cannot be received from the topic '{entity.record.path}'; receive from"
                " one of its subscriptions."
            )
        require_receivable(entity)
        subqueue = subqueue_of(address)
        if entity.is_in_sessions(subqueue):
            raise InvalidOperation(
                f"'{entity.record.path}' requires sessions, which cannot be received over HTTP"
                " (HTP-5). Receive it with an AMQP client."
            )
        return entity, subqueue

    def _resolve(self, path: str, token: str | None, right: Rights) -> tuple[Address, Entity]:
        """The entity of a path; its existence is not revealed without a right."""
        if self._is_closed:
            raise Stopping
        address = parse_address(path)
        self._authorize(token, address.path, right)
        if address.node != "entity":
            raise EntityNotFound.named(path)
        return address, self._gateway.namespace.resolve(address)

    def _authorize(self, token: str | None, path: str, right: Rights) -> None:
        if not token:
            raise Unauthorized(
                "A shared access signature is needed in the Authorization header; sign it with a"
                " policy that has the right."
            )
        now_ms = self._gateway.now_ms()
        grant = self._gateway.access.authenticate_request(token, path, now_ms)
        require([grant], path, right, now_ms)

    def _close(self) -> None:
        """The server stops: waiting requests are answered, and no more demand is made."""
        self._is_closed = True
        for reception in list(self._receptions):
            reception.close()


def _token(found: Found) -> uuid.UUID:
    return uuid.UUID(bytes=found.token_prefix.in_uuids + pack_number(found.held.token))
