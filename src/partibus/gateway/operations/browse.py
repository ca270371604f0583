"""Messages apart from a link: peek, receive by sequence number, batch delete.

Owns these three management operations. Peek touches nothing; a message received by its
number is locked like any other and settled by its token; batch delete takes what waits.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final
from uuid import UUID

from partibus.amqp.types import Int
from partibus.domain.errors import ArgumentError, BusError, MessageNotFound
from partibus.domain.limits import KILOBYTE, PEEK_MESSAGES_MAX
from partibus.fragment.commands import Peek, Purge, ReceiveDeferred
from partibus.fragment.handle import Fragment
from partibus.fragment.message import Held
from partibus.gateway.envelope import to_delivery, to_peeked
from partibus.gateway.lanes import client_sequence, split_sequence
from partibus.gateway.lock_token import pack_number

if TYPE_CHECKING:
    from partibus.gateway.management import ManagementRequest

PEEK_BYTES_MAX: Final = 256 * KILOBYTE
"""Size of one answer (PEK-7); a single larger message is still shown."""


def peek_message(request: "ManagementRequest") -> None:
    """Copies of messages from a sequence number on."""
    count = min(request.number("message-count", 1), PEEK_MESSAGES_MAX)
    if count < 1:
        raise ArgumentError("'message-count' must be at least 1.")
    index, sequence = split_sequence(max(0, request.number("from-sequence-number", 0)))
    fragment = request.entity.fragments[0]
    if index > fragment.index:
        request.succeed_empty()
        return
    port = _Peeked(request, fragment)
    fragment.submit(Peek(port, request.lane, sequence, count, PEEK_BYTES_MAX))


def receive_by_sequence_number(request: "ManagementRequest") -> None:
    """Deferred messages by their numbers; mode 0 deletes them, 1 locks them (DEF-2)."""
    mode = request.number("receiver-settle-mode", 1)
    if mode not in (0, 1):
        raise ArgumentError("'receiver-settle-mode' must be 0 or 1.")
    fragment = request.entity.fragments[0]
    numbers = own_numbers(fragment, request.numbers("sequence-numbers"))
    port = _Received(request, fragment, mode == 0)
    fragment.submit(ReceiveDeferred(port, request.lane, numbers, mode == 0))


def batch_delete_messages(request: "ManagementRequest") -> None:
    """Delete waiting messages that were enqueued before a time (BAT-6)."""
    most = request.node.connection.gateway.namespace.profile.batch_delete_messages_max
    count = request.number("message-count")
    if not 1 <= count <= most:
        raise ArgumentError(f"'message-count' must be 1 to {most}.")
    before_ms = request.number("enqueued-time-utc")
    port = _Deleted(request)
    request.entity.fragments[0].submit(Purge(port, request.lane, count, before_ms))


def own_numbers(fragment: Fragment, sequences: Sequence[int]) -> list[int]:
    """The fragment's own numbers; one of another fragment cannot be found here."""
    numbers: list[int] = []
    for sequence in sequences:
        index, number = split_sequence(sequence)
        if index != fragment.index:
            raise MessageNotFound(f"There is no message with the sequence number {sequence}.")
        numbers.append(number)
    return numbers


class _Peeked:
    """Takes peeked messages back to the client."""

    __slots__ = ("_fragment", "_request")

    def __init__(self, request: "ManagementRequest", fragment: Fragment) -> None:
        self._request = request
        self._fragment = fragment

    def found(self, messages: Sequence[Held], bodies: Sequence[bytes]) -> None:
        if not messages:
            self._request.succeed_empty()
            return
        shown: list[object] = []
        for held, body in zip(messages, bodies, strict=True):
            sequence = client_sequence(self._fragment.index, held.sequence)
            shown.append({"message": to_peeked(body, held, sequence)})
        self._request.succeed({"messages": shown})

    def failed(self, error: BusError) -> None:
        self._request.fail(error)


class _Received:
    """Takes messages that were received by number back to the client."""

    __slots__ = ("_deletes", "_fragment", "_request")

    def __init__(self, request: "ManagementRequest", fragment: Fragment, deletes: bool) -> None:
        self._request = request
        self._fragment = fragment
        self._deletes = deletes

    def found(self, messages: Sequence[Held], bodies: Sequence[bytes]) -> None:
        gateway = self._request.node.connection.gateway
        prefix = gateway.token_prefix(self._fragment.fragment_id).in_uuids
        given: list[object] = []
        for held, body in zip(messages, bodies, strict=True):
            sequence = client_sequence(self._fragment.index, held.sequence)
            token = b"" if self._deletes else prefix + pack_number(held.token)
            item: dict[str, object] = {"message": to_delivery(body, held, sequence, token)}
            item["lock-token"] = UUID(bytes=token or bytes(16))
            given.append(item)
        self._request.succeed({"messages": given})

    def failed(self, error: BusError) -> None:
        self._request.fail(error)


class _Deleted:
    """Tells the client how many messages were deleted."""

    __slots__ = ("_request",)

    def __init__(self, request: "ManagementRequest") -> None:
        self._request = request

    def done(self, count: int) -> None:
        if count:
            self._request.succeed({"message-count": Int(count)})
        else:
            self._request.succeed_empty()

    def failed(self, error: BusError) -> None:
        self._request.fail(error)
