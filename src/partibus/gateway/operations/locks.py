"""Locks by token: renewal, and settlement apart from the link that received.

Owns `renew-lock` and `update-disposition`. A lock is addressed by its token alone, from any
connection that may listen (LCK-6, ASK-8).
"""

import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from partibus.amqp.types import TIMESTAMP, Array, Timestamp
from partibus.domain.errors import ArgumentError, BusError, MessageLockLost
from partibus.fragment.commands import Outcome, Renew, Settle
from partibus.fragment.handle import Fragment
from partibus.fragment.message import Overlay
from partibus.gateway.outbound_link import changed_properties

if TYPE_CHECKING:
    from partibus.gateway.management import ManagementRequest

TOKENS_MAX: Final = 10_000
"""Tokens in one request."""

_OUTCOMES: Final = {
    "completed": Outcome.COMPLETE,
    "abandoned": Outcome.ABANDON,
    "suspended": Outcome.DEAD_LETTER,
    "defered": Outcome.DEFER,
}


def renew_lock(request: "ManagementRequest") -> None:
    """Extend locks; the answer has one expiration a token (LCK-3)."""
    fragment, numbers = _locks(request)
    fragment.submit(Renew(_LockReply(request), request.lane, numbers))


def update_disposition(request: "ManagementRequest") -> None:
    """Complete, abandon, dead-letter or defer by token; `defered` is spelt so on the wire."""
    status = request.fields.get("disposition-status")
    outcome = _OUTCOMES.get(str(status))
    if outcome is None:
        raise ArgumentError(f"'{status}' is no disposition; allowed are {', '.join(_OUTCOMES)}.")
    fragment, numbers = _locks(request)
    overlay = _overlay(request, outcome)
    port = _LockReply(request)
    fragment.submit(Settle(port, None, request.lane, numbers, outcome, overlay))


def _overlay(request: "ManagementRequest", outcome: Outcome) -> Overlay | None:
    properties = request.fields.get("properties-to-modify")
    changed = None
    if isinstance(properties, Mapping):
        changed = changed_properties({str(key): value for key, value in properties.items()})
    if outcome is not Outcome.DEAD_LETTER:
        return changed
    # Python sends empty strings for a reason that was not given.
    reason = request.fields.get("deadletter-reason") or None
    description = request.fields.get("deadletter-description") or None
    return Overlay(
        changed.properties if changed is not None else b"",
        str(reason) if reason is not None else None,
        str(description) if description is not None else None,
    )


def _locks(request: "ManagementRequest") -> tuple[Fragment, list[int]]:
    """The fragment that holds the locks, and its own numbers of them."""
    tokens = request.fields.get("lock-tokens")
    items: Sequence[object] = tokens.items if isinstance(tokens, Array) else ()
    if not 0 < len(items) <= TOKENS_MAX:
        raise ArgumentError(f"'lock-tokens' must be an array of 1 to {TOKENS_MAX} uuids.")
    fragment = request.entity.fragments[0]
    prefix = request.node.connection.gateway.token_prefix(fragment.fragment_id)
    numbers: list[int] = []
    for token in items:
        number = prefix.number_of(token) if isinstance(token, uuid.UUID) else None
        if number is None:
            raise MessageLockLost
        numbers.append(number)
    return fragment, numbers


class _LockReply:
    """Takes the fragment's answer back to the client."""

    __slots__ = ("_request",)

    def __init__(self, request: "ManagementRequest") -> None:
        self._request = request

    def renewed(self, until_ms: Sequence[int]) -> None:
        if 0 in until_ms:
            self._request.fail(MessageLockLost())
            return
        times: list[object] = [Timestamp(until) for until in until_ms]
        self._request.succeed({"expirations": Array(TIMESTAMP, times)})

    def settled(self, request: object, lost: Sequence[int], error: BusError | None) -> None:
        if error is None and lost:
            error = MessageLockLost()
        if error is None:
            self._request.succeed()
        else:
            self._request.fail(error)
