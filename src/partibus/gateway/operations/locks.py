"""Locks by token: renewal, and settlement outside of the receiving link.

Owns `renew-lock` and `update-disposition`. A lock is addressed by its token alone, from any
connection that may listen (LCK-6, ASK-8); the token names its fragment, and a request with
tokens of several fragments is split (BAT-4).
"""

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from partibus.amqp.codec.text import text_of
from partibus.amqp.codec.types import TIMESTAMP, Array, Timestamp
from partibus.domain.errors import (
    ArgumentError,
    BusError,
    InvalidOperation,
    MessageLockLost,
    SessionLockLost,
)
from partibus.fragment.commands import Outcome, Renew, Settle
from partibus.fragment.handle import Fragment
from partibus.fragment.message import Overlay
from partibus.gateway.links.outcomes import changed_properties, dead_letter_overlay
from partibus.gateway.operations.fanout import FanOut, RenewPart, SettlePart
from partibus.message.subqueues import subqueue_path
from partibus.message.trace_context import TracedMessage

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


@dataclass(eq=False, slots=True)
class LockGroup:
    """Locks of one fragment, with their places in the request."""

    fragment: Fragment
    numbers: list[int] = field(init=False, default_factory=list)
    places: list[int] = field(init=False, default_factory=list)


def renew_lock(request: "ManagementRequest") -> None:
    """Extend locks; the answer has one expiration per token, in order (LCK-3)."""
    if request.is_in_sessions:
        raise InvalidOperation(
            "Messages of a session have no lock of their own; renew the lock of the session."
        )
    groups, count = _locks(request)

    def finish(results: list[Sequence[int] | None]) -> None:
        times: list[object] = [None] * count
        for group, until_ms in zip(groups, results, strict=True):
            assert until_ms is not None
            if 0 in until_ms:
                request.fail(MessageLockLost())
                return
            for place, until in zip(group.places, until_ms, strict=True):
                times[place] = Timestamp(until)
        request.succeed({"expirations": Array(TIMESTAMP, times)})

    fan_out = FanOut[Sequence[int]](len(groups), finish, request.fail_fan_out)
    for part, group in enumerate(groups):
        group.fragment.submit(Renew(RenewPart(fan_out, part), request.subqueue, group.numbers))


def update_disposition(request: "ManagementRequest") -> None:
    """Complete, abandon, dead-letter or defer by token; `defered` is spelt so on the wire."""
    groups, outcome, overlay = disposition(request)
    over = _traced(request, groups, outcome)

    def finish(results: list[int | None]) -> None:
        error = _lost(request) if any(results) else None
        if error is not None:
            request.fail(error)
        else:
            request.succeed()
        over(error)

    def fail(error: BusError, results: list[int | None]) -> None:
        request.fail_fan_out(error, results)
        over(error)

    fan_out = FanOut[int](len(groups), finish, fail)
    for part, group in enumerate(groups):
        port = SettlePart(fan_out, part)
        command = Settle(port, None, request.subqueue, group.numbers, outcome, overlay)
        group.fragment.submit(command)


def _traced(
    request: "ManagementRequest", groups: Sequence[LockGroup], outcome: Outcome
) -> Callable[[BusError | None], None]:
    """Makes the spans of a settlement when it ends; does nothing when none is traced."""
    tracing = request.node.connection.gateway.namespace.tracing
    if tracing is None:
        return _untraced
    found: list[TracedMessage] = []
    for group in groups:
        found += tracing.settling(group.fragment.fragment_id, group.numbers)
    path = subqueue_path(request.entity.record.path, request.subqueue)
    return tracing.settlement(path, found, outcome)


def _untraced(_error: BusError | None) -> None:
    """The server exports no traces."""


def disposition(request: "ManagementRequest") -> tuple[list[LockGroup], Outcome, Overlay | None]:
    """What a request settles, by fragment, and how."""
    status = request.fields.get("disposition-status")
    outcome = _OUTCOMES.get(text_of(status) or "")
    if outcome is None:
        raise ArgumentError(f"'{status}' is not a disposition; allowed: {', '.join(_OUTCOMES)}.")
    groups, _ = _locks(request)
    return groups, outcome, _overlay(request, outcome)


def _overlay(request: "ManagementRequest", outcome: Outcome) -> Overlay | None:
    given = request.fields.get("properties-to-modify")
    properties: dict[str, object] = {}
    if isinstance(given, Mapping):
        properties = {text_of(key) or "": value for key, value in given.items()}
    if outcome is not Outcome.DEAD_LETTER:
        return changed_properties(properties)
    # Python sends empty strings for a reason that was not given.
    reason = request.fields.get("deadletter-reason") or None
    description = request.fields.get("deadletter-description") or None
    return dead_letter_overlay(reason, description, properties)


def _locks(request: "ManagementRequest") -> tuple[list[LockGroup], int]:
    """The locks by fragment, and how many there are in all."""
    tokens = request.fields.get("lock-tokens")
    items: Sequence[object] = tokens.items if isinstance(tokens, Array) else ()
    if not 0 < len(items) <= TOKENS_MAX:
        raise ArgumentError(f"'lock-tokens' must be an array of 1 to {TOKENS_MAX} uuids.")
    groups: dict[int, LockGroup] = {}
    for place, token in enumerate(items):
        fragment, number = _find(request, token)
        group = groups.setdefault(fragment.fragment_id, LockGroup(fragment))
        group.numbers.append(number)
        group.places.append(place)
    return list(groups.values()), len(items)


def _find(request: "ManagementRequest", token: object) -> tuple[Fragment, int]:
    """The fragment of a token and its own number there; an unknown one is a lost lock (LCK-5)."""
    if isinstance(token, uuid.UUID):
        gateway = request.node.connection.gateway
        for fragment in request.entity.fragments:
            number = gateway.token_prefix(fragment.fragment_id).number_of(token)
            if number is not None:
                return fragment, number
    raise _lost(request)


def _lost(request: "ManagementRequest") -> BusError:
    return SessionLockLost() if request.is_in_sessions else MessageLockLost()
