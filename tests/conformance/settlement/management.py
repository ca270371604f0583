"""The management node of a queue, asked by a generic AMQP client over a pair of links.

Gives tests what no stock client can do: settle by token from another connection, several
tokens in one request, batch delete, and the raw status and condition of each answer. Import
it only where the group "proton" is present.
"""

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from proton import UNDESCRIBED, Array, Data, Message, int32, timestamp, uint
from proton.reactor import AtMostOnce

from support.proton.client import Client


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An answer of the management node."""

    status: int
    condition: str | None
    text: str
    body: dict[str, Any]

    def messages(self) -> list[Message]:
        """The messages of a peek or of a receive by sequence number."""
        return [_decoded(item["message"]) for item in self.body["messages"]]

    def tokens(self) -> list[uuid.UUID]:
        """The lock tokens beside the messages."""
        return [item["lock-token"] for item in self.body["messages"]]


class Management:
    """Request and response with the management node of one queue or sub-queue."""

    def __init__(self, client: Client, path: str) -> None:
        address = f"{path}/$management"
        self._requests = client.sender(address)
        self._responses = client.receiver(address, option=AtMostOnce())
        self._count = 0

    def ask(self, operation: str, fields: dict[str, object]) -> Reply:
        """Ask for an operation and wait for its answer."""
        self._count += 1
        self._responses.link.flow(1)
        request = Message(
            id=f"request-{self._count}",
            reply_to=self._responses.link.name,
            properties={"operation": f"com.microsoft:{operation}"},
            body=fields,
        )
        self._requests.send(request)
        ((response, _),) = self._responses.wait_for(1)
        assert response.correlation_id == request.id
        properties = response.properties
        assert type(properties["statusCode"]) is int32
        return Reply(
            status=int(properties["statusCode"]),
            condition=properties.get("errorCondition"),
            text=properties["statusDescription"],
            body=_owned(response.body or {}),
        )

    def settle(self, status: str, *tokens: uuid.UUID, **fields: object) -> Reply:
        """`update-disposition`; further fields are spelt with underscores."""
        named = {name.replace("_", "-"): value for name, value in fields.items()}
        body = {"disposition-status": status, "lock-tokens": uuids(tokens), **named}
        return self.ask("update-disposition", body)

    def renew(self, *tokens: uuid.UUID) -> Reply:
        return self.ask("renew-lock", {"lock-tokens": uuids(tokens)})

    def peek(self, count: int, sequence_number: int = 0) -> Reply:
        return self.ask(
            "peek-message",
            {"from-sequence-number": sequence_number, "message-count": int32(count)},
        )

    def receive_deferred(self, *numbers: int, deletes: bool = False) -> Reply:
        return self.ask(
            "receive-by-sequence-number",
            {"sequence-numbers": longs(numbers), "receiver-settle-mode": uint(not deletes)},
        )

    def cancel_scheduled(self, *numbers: int) -> Reply:
        return self.ask("cancel-scheduled-message", {"sequence-numbers": longs(numbers)})

    def delete_batch(self, count: int, before_ms: int) -> Reply:
        return self.ask(
            "batch-delete-messages",
            {"message-count": int32(count), "enqueued-time-utc": timestamp(before_ms)},
        )


def uuids(tokens: Iterable[uuid.UUID]) -> Array:
    return Array(UNDESCRIBED, Data.UUID, *tokens)


def longs(numbers: Iterable[int]) -> Array:
    return Array(UNDESCRIBED, Data.LONG, *numbers)


def _owned(value: Any) -> Any:
    """A copy: Proton hands binary out as a view of memory that goes with the message."""
    if isinstance(value, memoryview):
        return bytes(value)
    if isinstance(value, dict):
        return {key: _owned(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_owned(item) for item in value]
    return value


def _decoded(encoded: bytes) -> Message:
    message = Message()
    message.decode(encoded)
    return message
