"""Scheduling through the management node: schedule, and cancel by sequence number.

Owns these two operations. Messages for one fragment are stored or refused together (SCH-8); the
numbers of cancelled messages name their fragments (SCH-12).
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from partibus.amqp.codec.types import LONG, Array
from partibus.domain.errors import ArgumentError
from partibus.domain.sequence import SEQUENCE_MAX, client_sequence
from partibus.fragment.commands import CancelScheduled, Enqueue
from partibus.fragment.handle import Fragment
from partibus.fragment.message import NewMessage
from partibus.gateway.links.inbound import BATCH_MESSAGES_MAX
from partibus.gateway.namespace import require_sendable, require_session_ids, too_large
from partibus.gateway.operations.deferred import by_fragment
from partibus.gateway.operations.fanout import CountPart, FanOut, SendPart, Stored
from partibus.gateway.router import Router
from partibus.gateway.tracing import traced_port
from partibus.message.envelope import to_stored

if TYPE_CHECKING:
    from partibus.gateway.management import ManagementRequest


def schedule_message(request: "ManagementRequest") -> None:
    """Store messages until they are due; the answer has their sequence numbers (SCH-1)."""
    messages, _ = messages_to_schedule(request)
    parts = _route(request, messages)

    def finish(results: list[Stored | None]) -> None:
        numbers: dict[int, int] = {}
        for (fragment, group), stored in zip(parts, results, strict=True):
            assert stored is not None
            for message, number in zip(group, _numbers(len(group), *stored), strict=True):
                numbers[id(message)] = client_sequence(fragment.index, number)
        tell_numbers(request, [numbers[id(message)] for message in messages])

    fan_out = FanOut[Stored](len(parts), finish, request.fail_fan_out)
    tracing = request.node.connection.gateway.namespace.tracing
    path = request.entity.record.path
    for part, (fragment, group) in enumerate(parts):
        size = sum([len(message.body) for message in group])
        port = SendPart(fan_out, part)
        traced = traced_port(tracing, "schedule", path, fragment.index, group, port)
        fragment.submit(Enqueue(traced, group, [part], size))


def messages_to_schedule(request: "ManagementRequest") -> tuple[list[NewMessage], list[bytes]]:
    """The messages of a request, in stored form and as received."""
    require_sendable(request.entity, request.node.node)
    items = request.fields.get("messages")
    if not isinstance(items, list) or not 0 < len(items) <= BATCH_MESSAGES_MAX:
        raise ArgumentError(f"'messages' must be a list of 1 to {BATCH_MESSAGES_MAX} messages.")
    payloads = [_payload(request, item) for item in items]
    detects = request.entity.spec.requires_duplicate_detection
    turns_decimals = request.node.connection.gateway.profile.turns_decimals
    messages = [to_stored(payload, detects, turns_decimals) for payload in payloads]
    require_session_ids(request.entity, messages)
    return messages, payloads


def tell_numbers(request: "ManagementRequest", numbers: Sequence[int]) -> None:
    """Answer with the numbers of scheduled messages, in the order of the request."""
    ordered: list[object] = list(numbers)
    request.succeed({"sequence-numbers": Array(LONG, ordered)})


def _numbers(count: int, first: int, dropped: Sequence[int]) -> list[int]:
    """The numbers of the messages; a duplicate gets one that no message has (DUP-6)."""
    numbers: list[int] = []
    duplicates = frozenset(dropped)
    for place in range(count):
        if place in duplicates:
            numbers.append(SEQUENCE_MAX)
        else:
            numbers.append(first)
            first += 1
    return numbers


def _route(
    request: "ManagementRequest", messages: list[NewMessage]
) -> list[tuple[Fragment, list[NewMessage]]]:
    """The messages by fragment: those with the same key together, those without a key together."""
    gateway = request.node.connection.gateway
    fragments = request.entity.fragments
    router = Router(fragments, gateway.random_start(), gateway.namespace.profile.splits_batches)
    parts: list[tuple[Fragment, list[NewMessage]]] = []
    for key, group in router.group(messages) if len(fragments) > 1 else [(None, messages)]:
        fragment = router.next_keyless() if key is None else router.keyed(key)
        assert fragment is not None
        parts.append((fragment, group))
    return parts


def _payload(request: "ManagementRequest", item: object) -> bytes:
    payload = item.get("message") if isinstance(item, Mapping) else None
    if not isinstance(payload, bytes):
        raise ArgumentError("Each of 'messages' must be a map with the encoded 'message'.")
    if len(payload) > request.entity.message_bytes_max:
        raise too_large(request.entity)
    return payload


def cancel_scheduled_message(request: "ManagementRequest") -> None:
    """Remove scheduled messages before their time (SCH-3)."""
    groups = by_fragment(request.entity, request.numbers("sequence-numbers"))

    def finish(results: list[int | None]) -> None:
        request.succeed()

    fan_out = FanOut[int](len(groups), finish, request.fail_fan_out)
    for part, (fragment, numbers) in enumerate(groups):
        fragment.submit(CancelScheduled(CountPart(fan_out, part), numbers))
