"""The management node of an entity: peek, schedule, locks, deferred messages, sessions, rules.

Owns the operations of amqp-contract 7.3 that tools need, with plain values in and out. It keeps no
state of the entity. Refusals are RemoteErrors with the bus's own condition and text; an operation
that finds nothing returns an empty result. Called through `client.bus`.
"""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from partibus.amqp.codec import types
from partibus.amqp.codec.types import Array, Int, Timestamp, UInt
from partibus.amqp.errors import AmqpError
from partibus.client.errors import RemoteError
from partibus.client.message import IncomingMessage, OutgoingMessage
from partibus.client.requests import RequestLinks
from partibus.domain import conditions
from partibus.domain.sequence import fragment_of

SERVER_TIMEOUT_MS: Final = 60_000
SESSIONS_WITH_CONTENT_MS: Final = 253_402_300_800_000
"""The year 10000: requests sessions with messages or state, not recently changed ones."""
_SESSIONS_PAGE: Final = 100
_NOTHING: Final = (204, 404)
_NOTHING_CONDITIONS: Final = ("", conditions.MICROSOFT_MESSAGE_NOT_FOUND)

Answer = dict[object, object]


class Management:
    """Requests to one entity, or to its dead-letter queue."""

    def __init__(self, links: RequestLinks, path: str, link_name: str | None = None) -> None:
        """`link_name` is the receiver on whose behalf requests are made, if it holds a session."""
        self._links = links
        self._path = path
        self._link_name = link_name

    @property
    def is_usable(self) -> bool:
        """Whether its links and its connection are still open."""
        return self._links.is_usable

    async def close(self) -> None:
        await self._links.close()

    async def request(self, operation: str, body: dict[str, object]) -> Answer | None:
        """One operation; None when the bus found nothing."""
        application: dict[str, object] = {
            "operation": f"com.microsoft:{operation}",
            "type": "entity-mgmt",
            "com.microsoft:server-timeout": UInt(SERVER_TIMEOUT_MS),
        }
        if self._link_name is not None:
            application["associated-link-name"] = self._link_name
        response = await self._links.ask(application, body)
        status = response.properties.get("statusCode", response.properties.get("status-code"))
        condition = str(response.properties.get("errorCondition") or "")
        if status == 200:
            return response.body if isinstance(response.body, dict) else {}
        if status in _NOTHING and condition in _NOTHING_CONDITIONS:
            return None
        text = str(response.properties.get("statusDescription") or f"status {status}")
        error = AmqpError(condition or conditions.INTERNAL_ERROR, text)
        raise RemoteError(error, f"{operation} on {self._path}")

    # --- messages -----------------------------------------------------------------------------

    async def peek(
        self, from_number: int, count: int, session_id: str | None = None
    ) -> list[IncomingMessage]:
        """Copies from a sequence number on; there may be more even if fewer than `count` are
        returned."""
        return [IncomingMessage(m) for m in await self.peek_encoded(from_number, count, session_id)]

    async def peek_encoded(
        self, from_number: int, count: int, session_id: str | None = None
    ) -> list[bytes]:
        """The same in encoded form, for bulk readers."""
        body: dict[str, object] = {"from-sequence-number": from_number, "message-count": Int(count)}
        if session_id is not None:
            body["session-id"] = session_id
        answer = await self.request("peek-message", body)
        return [payload for payload, _ in _entries(answer)]

    async def receive_deferred(
        self, numbers: Sequence[int], *, delete: bool = False, session_id: str | None = None
    ) -> list[IncomingMessage]:
        """Receive deferred messages by their numbers, with a lock or with deletion."""
        found: list[IncomingMessage] = []
        for some in by_partition(numbers):
            body: dict[str, object] = {
                "sequence-numbers": Array(types.LONG, some),
                "receiver-settle-mode": UInt(0 if delete else 1),
            }
            if session_id is not None:
                body["session-id"] = session_id
            found += _messages(await self.request("receive-by-sequence-number", body))
        return found

    async def delete_deferred(self, numbers: Sequence[int]) -> bool:
        """Delete deferred messages of one partition; False when some do not exist.

        Then none of them was deleted (DEF-3).
        """
        body: dict[str, object] = {
            "sequence-numbers": Array(types.LONG, list(numbers)),
            "receiver-settle-mode": UInt(0),
        }
        return await self.request("receive-by-sequence-number", body) is not None

    async def settle(
        self,
        tokens: Sequence[UUID],
        status: str,
        *,
        reason: str = "",
        description: str = "",
        properties: dict[str, object] | None = None,
        session_id: str | None = None,
    ) -> None:
        """`status` is completed, abandoned, defered (sic) or suspended, which dead-letters.

        `properties` are laid over the message's own, unless it is completed (LCK-10)."""
        body: dict[str, object] = {
            "disposition-status": status,
            "lock-tokens": Array(types.UUID16, list(tokens)),
        }
        if status == "suspended":
            body |= {"deadletter-reason": reason, "deadletter-description": description}
        if properties is not None:
            body["properties-to-modify"] = properties
        if session_id is not None:
            body["session-id"] = session_id
        await self.request("update-disposition", body)

    async def renew_locks(self, tokens: Sequence[UUID]) -> list[int]:
        """The new ends of the locks, in milliseconds since 1970."""
        answer = await self.request("renew-lock", {"lock-tokens": Array(types.UUID16, [*tokens])})
        return _numbers(answer, "expirations")

    async def delete_batch(self, count: int, before_ms: int) -> int:
        """Delete up to `count` waiting messages that are older; returns how many."""
        body: dict[str, object] = {
            "message-count": Int(count),
            "enqueued-time-utc": Timestamp(before_ms),
        }
        answer = await self.request("batch-delete-messages", body)
        deleted = (answer or {}).get("message-count")
        return deleted if isinstance(deleted, int) else 0

    async def schedule(self, messages: Sequence[OutgoingMessage]) -> list[int]:
        """Schedule messages; returns the sequence numbers for cancelling, in the same order."""
        entries: list[object] = []
        for message in messages:
            entry: dict[str, object] = {
                "message": message.encode(),
                "message-id": message.message_id or "",
            }
            if message.session_id is not None:
                entry["session-id"] = message.session_id
            if message.partition_key is not None:
                entry["partition-key"] = message.partition_key
            entries.append(entry)
        answer = await self.request("schedule-message", {"messages": entries})
        return _numbers(answer, "sequence-numbers")

    async def cancel(self, numbers: Sequence[int]) -> None:
        """Cancel scheduled messages."""
        for some in by_partition(numbers):
            await self._cancel(some)

    async def _cancel(self, numbers: list[object]) -> None:
        body: dict[str, object] = {"sequence-numbers": Array(types.LONG, numbers)}
        if await self.request("cancel-scheduled-message", body) is None:
            listed = ", ".join(map(str, numbers))
            error = AmqpError(
                conditions.MICROSOFT_MESSAGE_NOT_FOUND,
                f"no scheduled message has the number {listed}",
            )
            raise RemoteError(error, f"cancel on {self._path}")

    # --- sessions -----------------------------------------------------------------------------

    async def sessions(self) -> list[str]:
        """The ids of all sessions with messages or state."""
        found: list[str] = []
        while True:
            answer = await self.request(
                "get-message-sessions",
                {
                    "last-updated-time": Timestamp(SESSIONS_WITH_CONTENT_MS),
                    "skip": Int(len(found)),
                    "top": Int(_SESSIONS_PAGE),
                },
            )
            page = [str(item) for item in _items((answer or {}).get("sessions-ids"))]
            found += page
            if len(page) < _SESSIONS_PAGE:
                return found

    async def session_state(self, session_id: str) -> bytes | None:
        """The state of a session; None when it has none."""
        answer = await self.request("get-session-state", {"session-id": session_id})
        state = (answer or {}).get("session-state")
        return state if isinstance(state, bytes) else None

    async def set_session_state(self, session_id: str, state: bytes | None) -> None:
        """Write the state of a session whose lock this connection holds; None clears it."""
        body: dict[str, object] = {"session-id": session_id, "session-state": state}
        await self.request("set-session-state", body)

    async def renew_session_lock(self, session_id: str) -> int:
        """The new end of the session's lock, in milliseconds since 1970."""
        answer = await self.request("renew-session-lock", {"session-id": session_id})
        expiration = (answer or {}).get("expiration")
        return expiration if isinstance(expiration, int) else 0


def by_partition(numbers: Sequence[int]) -> list[list[object]]:
    """Sequence numbers grouped by partition: a request may contain those of only one (8.5)."""
    groups: dict[int, list[object]] = {}
    for number in numbers:
        groups.setdefault(fragment_of(number), []).append(number)
    return list(groups.values())


def _messages(answer: Answer | None) -> list[IncomingMessage]:
    return [IncomingMessage(payload, token) for payload, token in _entries(answer)]


def _entries(answer: Answer | None) -> list[tuple[bytes, UUID | None]]:
    """Encoded messages, and the locks of those that have one."""
    found: list[tuple[bytes, UUID | None]] = []
    for entry in _items((answer or {}).get("messages")):
        assert isinstance(entry, dict)
        payload, token = entry.get("message"), entry.get("lock-token")
        assert isinstance(payload, bytes)
        found.append((payload, token if isinstance(token, UUID) else None))
    return found


def _items(value: object) -> list[object]:
    if isinstance(value, Array):
        return value.items
    return value if isinstance(value, list) else []


def _numbers(answer: Answer | None, key: str) -> list[int]:
    return [int(item) for item in _items((answer or {}).get(key)) if isinstance(item, int)]
