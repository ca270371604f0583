"""Sessions through the management node: their lock, their state, and the list of them.

Owns `renew-session-lock`, `get-session-state`, `set-session-state` and `get-message-sessions`. All
but the last are only for the holder, a link of the same connection (SES-12).
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from partibus.amqp.codec.types import STRING32, Array, Int, Timestamp
from partibus.domain.errors import ArgumentError, BusError, SessionLockLost
from partibus.fragment.handle import Fragment
from partibus.fragment.sessions.commands import (
    GetSessionState,
    ListSessions,
    RenewSession,
    SetSessionState,
)
from partibus.gateway.links.submission import fragment_unavailable
from partibus.gateway.namespace import too_large

if TYPE_CHECKING:
    from partibus.gateway.links.session import HeldSession
    from partibus.gateway.management import ManagementRequest

TIME_MAX_MS: Final = 253_402_300_799_000
"""The last second of the year 9999; this or later selects every session (SES-18)."""
SESSIONS_MAX: Final = 10_000
"""Ids in one answer; the next ones follow with the next request."""


def renew_session_lock(request: "ManagementRequest") -> None:
    """Extend the lock of a session (SES-7)."""
    held = _reachable(request)
    held.fragment.submit(RenewSession(_Answer(request), held.session_id, held.lock))


def get_session_state(request: "ManagementRequest") -> None:
    """The state of a session; null when there is none (SES-16)."""
    held = _reachable(request)
    held.fragment.submit(GetSessionState(_Answer(request), held.session_id, held.lock))


def set_session_state(request: "ManagementRequest") -> None:
    """Store the state of a session; null clears it (SES-16)."""
    held = _reachable(request)
    state = request.fields.get("session-state")
    if state is not None and not isinstance(state, bytes):
        raise ArgumentError("'session-state' must be binary or null.")
    if state is not None and len(state) > request.entity.message_bytes_max:
        raise too_large(request.entity)
    port = _Answer(request)
    held.fragment.submit(SetSessionState(port, held.session_id, held.lock, state))


def _reachable(request: "ManagementRequest") -> "HeldSession":
    """The session that the client holds; refused while its store is down (PAV-3)."""
    held = request.held_session()
    if not held.fragment.is_available:
        raise fragment_unavailable(held.fragment, request.entity.record.path)
    return held


def get_message_sessions(request: "ManagementRequest") -> None:
    """Ids of sessions, page by page over all fragments; 204 at the end (SES-18, SES-20)."""
    if not request.is_in_sessions:
        # An entity without sessions has none to list.
        request.succeed_empty()
        return
    after_ms = request.number("last-updated-time")
    skip, top = request.number("skip", 0), request.number("top", 100)
    if skip < 0 or top < 1:
        raise ArgumentError("'skip' must be at least 0 and 'top' at least 1.")
    is_every = after_ms >= TIME_MAX_MS
    _Listing(request, None if is_every else after_ms, skip, min(top, SESSIONS_MAX)).go_on()


@dataclass(eq=False, slots=True)
class _Answer:
    """Answers a request about one session."""

    request: "ManagementRequest"

    def renewed(self, until_ms: Sequence[int]) -> None:
        """The lock was renewed, or is lost."""
        if until_ms[0]:
            self.request.succeed({"expiration": Timestamp(until_ms[0])})
        else:
            self.request.fail(SessionLockLost())

    def state_found(self, state: bytes | None) -> None:
        """The state was read."""
        self.request.succeed({"session-state": state})

    def done(self, count: int) -> None:
        """The state is durable."""
        self.request.succeed()

    def failed(self, error: BusError) -> None:
        """Nothing was changed, or nothing can be read."""
        self.request.fail(error)


class _Listing:
    """One page while it is collected from the fragments."""

    __slots__ = ("_after_ms", "_fragments", "_ids", "_request", "_skip", "_to_skip", "_top")

    def __init__(
        self, request: "ManagementRequest", after_ms: int | None, skip: int, top: int
    ) -> None:
        self._request = request
        self._after_ms = after_ms
        self._fragments: deque[Fragment] = deque(request.entity.fragments)
        self._ids: list[object] = []
        self._skip = self._to_skip = skip
        self._top = top

    def go_on(self) -> None:
        """Ask the next fragment for the remaining ids, or answer."""
        missing = self._top - len(self._ids)
        if self._fragments and missing:
            fragment = self._fragments.popleft()
            fragment.submit(ListSessions(self, self._after_ms, self._to_skip, missing))
        elif self._ids:
            skip = Int(self._skip + len(self._ids))
            self._request.succeed({"skip": skip, "sessions-ids": Array(STRING32, self._ids)})
        else:
            self._request.succeed_empty()

    def listed(self, session_ids: Sequence[str], passed_over: int) -> None:
        """A fragment has listed its sessions."""
        self._to_skip -= passed_over
        self._ids += session_ids
        self.go_on()

    def failed(self, error: BusError) -> None:
        """A fragment failed; a partial list would look like a complete one."""
        self._request.fail(error)
