"""Deferred messages by their sequence numbers (DEF-2).

Owns `receive-by-sequence-number`. Its messages are locked like any other and settled by token. A
request that locks may name numbers of several fragments; one that deletes must keep to a single
fragment, since it could not be undone. A message whose stored bytes are damaged is left out: it
stays deferred, unless the request deletes.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from partibus.domain.errors import ArgumentError, BusError, InvalidOperation, MessageNotFound
from partibus.domain.sequence import client_sequence, split_sequence
from partibus.fragment.commands import Outcome, ReceiveDeferred, Settle
from partibus.fragment.handle import Fragment
from partibus.fragment.message import Held
from partibus.gateway.namespace import Entity, require_receivable
from partibus.gateway.operations.fanout import FanOut, Messages, MessagesPart
from partibus.message.damaged import all_damaged
from partibus.message.envelope import to_delivery
from partibus.message.lock_token import pack_number
from partibus.message.subqueues import subqueue_path

if TYPE_CHECKING:
    from partibus.gateway.management import ManagementRequest


def receive_by_sequence_number(request: "ManagementRequest") -> None:
    """Receive deferred messages; settle mode 0 deletes them, 1 locks them."""
    require_receivable(request.entity)
    mode = request.number("receiver-settle-mode", 1)
    if mode not in (0, 1):
        raise ArgumentError("'receiver-settle-mode' must be 0 or 1.")
    deletes = mode == 0
    groups = by_fragment(request.entity, request.numbers("sequence-numbers"))
    session_id, lock = _session(request, groups)
    if deletes and len(groups) > 1:
        raise InvalidOperation(
            "Receive-and-delete by sequence number takes numbers of one fragment at a time."
        )

    def finish(results: list[Messages | None]) -> None:
        given: list[object] = []
        for (fragment, _), result in zip(groups, results, strict=True):
            assert result is not None
            given += _encode(request, fragment, result, deletes)
            _trace(request, fragment, result, deletes)
            if not deletes:
                damaged = [held for held, body in zip(*result, strict=True) if not body]
                _let_go(request, fragment, damaged)
        if given:
            request.succeed({"messages": given})
        else:
            request.fail(all_damaged(request.numbers("sequence-numbers")))

    def fail(error: BusError, results: Sequence[Messages | None]) -> None:
        for (fragment, _), result in zip(groups, results, strict=True):
            if result is not None:
                _let_go(request, fragment, result[0])
        request.fail(error)

    fan_out = FanOut[Messages](len(groups), finish, fail)
    for part, (fragment, numbers) in enumerate(groups):
        port = MessagesPart(fan_out, part)
        command = ReceiveDeferred(port, request.subqueue, numbers, deletes, session_id, lock)
        fragment.submit(command)


def _let_go(request: "ManagementRequest", fragment: Fragment, messages: Sequence[Held]) -> None:
    """Unlock what is not returned after all; it stays deferred."""
    if messages:
        tokens = [held.token for held in messages]
        fragment.submit(Settle(None, None, request.subqueue, tokens, Outcome.RELEASE))


def _session(
    request: "ManagementRequest", groups: Sequence[tuple[Fragment, list[int]]]
) -> tuple[str | None, int]:
    """The session of the messages and its lock, where there are sessions (DEF-7)."""
    if not request.is_in_sessions:
        return None, 0
    held = request.held_session()
    for fragment, numbers in groups:
        if fragment is not held.fragment:
            raise MessageNotFound(
                f"Message {numbers[0]} of fragment {fragment.index} is not in the session."
            )
    return held.session_id, held.lock


def _encode(
    request: "ManagementRequest", fragment: Fragment, result: Messages, deletes: bool
) -> list[object]:
    gateway = request.node.connection.gateway
    prefix = gateway.token_prefix(fragment.fragment_id).in_uuids
    given: list[object] = []
    for held, body in zip(*result, strict=True):
        if not body:
            continue
        sequence = client_sequence(fragment.index, held.sequence)
        token = b"" if deletes else prefix + pack_number(held.token)
        item: dict[str, object] = {"message": to_delivery(body, held, sequence, token)}
        item["lock-token"] = UUID(bytes=token or bytes(16))
        given.append(item)
    return given


def _trace(
    request: "ManagementRequest", fragment: Fragment, result: Messages, deletes: bool
) -> None:
    """Messages are delivered to a receiver, as on a link."""
    gateway = request.node.connection.gateway
    tracing = gateway.namespace.tracing
    if tracing is None:
        return
    path = subqueue_path(request.entity.record.path, request.subqueue)
    traced = tracing.delivered(path, fragment.index, *result, gateway.now_ms())
    if not deletes:
        tracing.remember(fragment.fragment_id, traced)


def by_fragment(entity: Entity, sequences: Sequence[int]) -> list[tuple[Fragment, list[int]]]:
    """Sequence numbers by the fragment in their top bits, as its own numbers."""
    groups: dict[int, list[int]] = {}
    for sequence in sequences:
        index, number = split_sequence(sequence)
        if index >= len(entity.fragments):
            raise MessageNotFound(f"There is no message with the sequence number {sequence}.")
        groups.setdefault(index, []).append(number)
    return [(entity.fragments[index], numbers) for index, numbers in groups.items()]
