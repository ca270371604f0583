"""Scheduling through the management node: schedule, and cancel by sequence number.

Owns these two operations. A whole request is stored or refused as one (SCH-8).
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from partibus.amqp.types import LONG, Array
from partibus.domain.errors import ArgumentError, BusError, MessageTooLarge
from partibus.fragment.commands import CancelScheduled, Enqueue
from partibus.fragment.handle import Fragment
from partibus.fragment.message import NewMessage
from partibus.gateway.envelope import to_stored
from partibus.gateway.inbound_link import BATCH_MESSAGES_MAX
from partibus.gateway.lanes import client_sequence
from partibus.gateway.namespace import require_sendable
from partibus.gateway.operations.browse import own_numbers

if TYPE_CHECKING:
    from partibus.gateway.management import ManagementRequest


def schedule_message(request: "ManagementRequest") -> None:
    """Store messages until they are due; the answer has their sequence numbers (SCH-1)."""
    require_sendable(request.entity, request.node.node)
    items = request.fields.get("messages")
    if not isinstance(items, list) or not 0 < len(items) <= BATCH_MESSAGES_MAX:
        raise ArgumentError(f"'messages' must be a list of 1 to {BATCH_MESSAGES_MAX} messages.")
    messages = [_message(request, item) for item in items]
    fragment = request.entity.fragments[0]
    size = sum([len(message.body) for message in messages])
    port = _Scheduled(request, fragment, len(messages))
    fragment.submit(Enqueue(port, messages, [0], size))


def _message(request: "ManagementRequest", item: object) -> NewMessage:
    payload = item.get("message") if isinstance(item, Mapping) else None
    if not isinstance(payload, bytes):
        raise ArgumentError("Each of 'messages' must be a map with the encoded 'message'.")
    size_max = request.entity.message_bytes_max
    if len(payload) > size_max:
        raise MessageTooLarge(
            f"The message has {len(payload)} bytes; '{request.entity.record.path}' accepts "
            f"{size_max}. Make it smaller."
        )
    return to_stored(payload)


def cancel_scheduled_message(request: "ManagementRequest") -> None:
    """Remove scheduled messages before their time (SCH-3)."""
    fragment = request.entity.fragments[0]
    numbers = own_numbers(fragment, request.numbers("sequence-numbers"))
    fragment.submit(CancelScheduled(_Cancelled(request), numbers))


class _Scheduled:
    """Tells the client the numbers of its scheduled messages."""

    __slots__ = ("_count", "_fragment", "_request")

    def __init__(self, request: "ManagementRequest", fragment: Fragment, count: int) -> None:
        self._request = request
        self._fragment = fragment
        self._count = count

    def confirmed(self, requests: Sequence[int], first_sequence: int) -> None:
        index = self._fragment.index
        numbers: list[object] = [
            client_sequence(index, first_sequence + offset) for offset in range(self._count)
        ]
        self._request.succeed({"sequence-numbers": Array(LONG, numbers)})

    def refused(self, requests: Sequence[int], error: BusError) -> None:
        self._request.fail(error)


class _Cancelled:
    """Tells the client that its messages are cancelled."""

    __slots__ = ("_request",)

    def __init__(self, request: "ManagementRequest") -> None:
        self._request = request

    def done(self, count: int) -> None:
        self._request.succeed()

    def failed(self, error: BusError) -> None:
        self._request.fail(error)
