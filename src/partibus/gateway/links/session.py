"""A link on which a client receives one session.

Owns the way to a session: the attach is answered when one is held, by its id or whichever has
waited longest over all fragments, or refused when there is none in time (SES-3, SES-4). From
then on it is a receiving link with a single source, whose locks are all the session's. The
session is released when the link goes (SES-7), and the link goes when the session is lost.
"""

from functools import partial
from typing import TYPE_CHECKING, Final

from partibus.amqp.codec.text import is_text, text_of
from partibus.amqp.codec.types import Described
from partibus.amqp.link import Link
from partibus.amqp.terminus import source_with_filter
from partibus.domain.errors import (
    ArgumentError,
    BusError,
    EntityNotFound,
    OperationTimeout,
    SessionLockLost,
    StoreUnavailable,
)
from partibus.domain.limits import SESSION_ID_LENGTH_MAX
from partibus.domain.partition_key import fragment_index
from partibus.fragment.broker import Timer
from partibus.fragment.commands import FindOldestSession, Lane
from partibus.fragment.handle import Fragment
from partibus.gateway.links.outbound import OutboundLink
from partibus.gateway.links.session_source import SessionSource
from partibus.gateway.namespace import Entity
from partibus.gateway.operations.fanout import CountPart, FanOut

if TYPE_CHECKING:
    from partibus.gateway.connection import ClientConnection

SESSION_FILTER: Final = "com.microsoft:session-filter"
TIMEOUT_PROPERTY: Final = "com.microsoft:timeout"
LOCKED_UNTIL_PROPERTY: Final = "com.microsoft:locked-until-utc"
WAIT_MS_DEFAULT: Final = 59_000
"""How long a client waits for a session that did not say; it gives up itself after a minute."""
LOST_NOTICE_MS: Final = 2_000
"""How long a link outlives the lock of its session. The service takes its time, too: a client that
waits for messages as long as the lock lasts, and no longer, leaves before it is told."""
_EPOCH_TICKS: Final = 621_355_968_000_000_000
_TICKS_PER_MS: Final = 10_000


class HeldSession:
    """A session that a link holds, for operations apart from the link."""

    __slots__ = ("fragment", "lock", "session_id")

    def __init__(self, fragment: Fragment, session_id: str, lock: int) -> None:
        self.fragment = fragment
        self.session_id = session_id
        self.lock = lock


class SessionLink(OutboundLink):
    """One session receiver of a client."""

    __slots__ = (
        "_candidates",
        "_entity_path",
        "_filters",
        "_held",
        "_searches_left",
        "_timer",
        "_wanted",
    )

    def __init__(
        self,
        connection: "ClientConnection",
        link: Link,
        path: str,
        entity: Entity,
        deletes: bool,
    ) -> None:
        super().__init__(connection, link, path, (), Lane.MAIN, deletes)
        assert link.source is not None
        self._filters = link.source.filters
        self._wanted = _session_id(self._filters[SESSION_FILTER])
        self._entity_path = entity.record.path
        fragments = entity.fragments
        if self._wanted is not None:
            fragments = [fragments[fragment_index(self._wanted, len(fragments))]]
        gateway = connection.gateway
        self._candidates = [SessionSource(self, gateway, f, deletes) for f in fragments]
        self._searches_left = len(fragments)
        self._held: HeldSession | None = None
        self._timer: Timer | None = None

    # --- on the way to a session --------------------------------------------------------------

    def open(self) -> None:
        """Ask for the session; the client's attach is answered when it is held."""
        if self._wanted is not None:
            self._candidates[0].accept(self._wanted, False)
            return
        wait_ms = self._link.properties.get(TIMEOUT_PROPERTY)
        if not isinstance(wait_ms, int):
            wait_ms = WAIT_MS_DEFAULT
        scheduler = self._connection.gateway.scheduler
        self._timer = scheduler.call_later_ms(int(wait_ms), self._timed_out)
        if len(self._candidates) == 1:
            self._wait()
        else:
            self._search()

    def _search(self) -> None:
        """Find the session that has waited longest over all fragments (SES-20, SES-25)."""
        asked = [source for source in self._candidates if source.is_available]
        if not asked:
            self._wait()
            return
        fan_out = FanOut[int](
            len(asked), partial(self._found, asked), partial(self._found_in_part, asked)
        )
        for part, source in enumerate(asked):
            source.fragment.submit(FindOldestSession(CountPart(fan_out, part)))

    def _found_in_part(
        self, asked: list[SessionSource], error: BusError, heads_ms: list[int | None]
    ) -> None:
        self._found(asked, heads_ms)

    def _found(self, asked: list[SessionSource], heads_ms: list[int | None]) -> None:
        """Take the oldest of what the fragments have; wait at all of them when none has any."""
        if self._is_closed:
            return
        heads = [(head_ms, place) for place, head_ms in enumerate(heads_ms) if head_ms]
        if heads and self._searches_left > 0:
            self._searches_left -= 1
            asked[min(heads)[1]].accept(None, False)
        else:
            self._wait()

    def _wait(self) -> None:
        for source in self._candidates:
            source.accept(None, True)

    def _timed_out(self) -> None:
        self._timer = None
        error = OperationTimeout(
            f"No session of '{self._entity_path}' became available in time. Try again."
        )
        self._connection.drop(self._link, error)

    # --- from the sources ---------------------------------------------------------------------

    def session_accepted(
        self, source: SessionSource, session_id: str, locked_until_ms: int, lock: int
    ) -> None:
        """A session is held: answer the client, and let the other fragments be."""
        if self._held is not None:
            source.close()
            return
        self._held = HeldSession(source.fragment, session_id, lock)
        self._stop_waiting(source)
        self._sources = [source]
        self._connection.held_sessions[self._entity_path, session_id] = self
        self._link.accept(
            source=source_with_filter(self._link.source_raw, self._answered_filters(session_id)),
            properties={LOCKED_UNTIL_PROPERTY: locked_until_ms * _TICKS_PER_MS + _EPOCH_TICKS},
        )
        self._connection.has_output()
        self.flow()

    def _answered_filters(self, session_id: str) -> dict[str, object]:
        """The filters with the session that was given, in the shape of the question
        (amqp-contract rule 6)."""
        filters = dict(self._filters)
        asked = filters[SESSION_FILTER]
        filters[SESSION_FILTER] = (
            Described(asked.descriptor, session_id) if isinstance(asked, Described) else session_id
        )
        return filters

    def _stop_waiting(self, chosen: SessionSource | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for source in self._candidates:
            if source is not chosen and not source.is_closed:
                source.close()

    def session_refused(self, source: SessionSource, error: BusError) -> None:
        """A fragment has no session to give: look again, or tell the client."""
        if self._held is not None:
            return
        if self._wanted is None and not isinstance(error, EntityNotFound):
            self._search()
        else:
            self._connection.drop(self._link, error)

    def session_lost(self, source: SessionSource, error: BusError) -> None:
        """The session is held no more: it is free at once, and the link goes a moment later."""
        if not isinstance(error, SessionLockLost):
            self._connection.drop(self._link, error)
            return
        source.close()
        self._sources = []
        drop = partial(self._connection.drop, self._link, error)
        self._timer = self._connection.gateway.scheduler.call_later_ms(LOST_NOTICE_MS, drop)

    def out_of_reach(self, source: SessionSource) -> None:
        """A fragment cannot be reached, and its sessions are free again."""
        if self._held is not None:
            self._connection.drop(self._link, SessionLockLost())
        elif self._wanted is not None:
            self._connection.drop(self._link, StoreUnavailable())

    # --- as a receiving link --------------------------------------------------------------------

    def held(self) -> HeldSession:
        """The session that the link holds."""
        assert self._held is not None
        return self._held

    def flow(self) -> None:
        """Credit that comes before the session is kept by the engine until then."""
        if self._sources:
            super().flow()

    def _lock_lost(self) -> BusError:
        return SessionLockLost()

    def closed(self) -> None:
        """The link is gone, and the session is released."""
        self._is_closed = True
        held, sessions = self._held, self._connection.held_sessions
        # The client may hold the session by another link already.
        if held is not None and sessions.get((self._entity_path, held.session_id)) is self:
            del sessions[self._entity_path, held.session_id]
        self._stop_waiting(None)


def _session_id(asked: object) -> str | None:
    """The session that a filter names; None for any."""
    value = asked.value if isinstance(asked, Described) else asked
    if value is None:
        return None
    session_id = text_of(value) if is_text(value) else None
    if session_id is None or len(session_id) > SESSION_ID_LENGTH_MAX:
        raise ArgumentError(
            f"The session filter must be null or a string of up to {SESSION_ID_LENGTH_MAX} "
            "characters."
        )
    return session_id
