"""A link on which a client receives one session.

Owns how a session is accepted: the attach is answered when one is held, by its id or the one that
has waited longest over all fragments, or refused when there is none in time (SES-3, SES-4). After
that it is a receiving link with a single source, whose locks are all the session's. The session is
released when the link closes (SES-7), and the link is detached when the session is lost.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from partibus.amqp.link import Link
from partibus.amqp.terminus import source_with_filter
from partibus.domain.annotations import LOCKED_UNTIL_PROPERTY, TIMEOUT_PROPERTY
from partibus.domain.errors import (
    BusError,
    EntityNotFound,
    OperationTimeout,
    SessionLockLost,
    StoreUnavailable,
)
from partibus.domain.moments import ticks_of
from partibus.domain.partition_key import fragment_index
from partibus.domain.scheduler import Timer
from partibus.fragment.commands import SubQueueType
from partibus.fragment.handle import Fragment
from partibus.fragment.sessions.commands import FindOldestSession
from partibus.gateway.links.outbound import OutboundLink
from partibus.gateway.links.session_filter import SessionFilter
from partibus.gateway.links.session_source import SessionSource
from partibus.gateway.namespace import Entity
from partibus.gateway.operations.fanout import CountPart, FanOut
from partibus.message.lock_token import pack_number

if TYPE_CHECKING:
    from partibus.gateway.connection import ClientConnection

WAIT_MS_DEFAULT: Final = 59_000
"""How long a client that set no time-out waits for a session; clients give up after a minute."""
LOST_NOTICE_MS: Final = 2_000
"""How long a link outlives the lock of its session. The service has a delay, too: a client that
waits for messages exactly as long as the lock lasts leaves before it is detached."""


@dataclass(eq=False)
class HeldSession:
    """A session that a link holds, for operations outside of the link."""

    fragment: Fragment
    session_id: str
    lock: int


class SessionLink(OutboundLink):
    """One session receiver of a client."""

    __slots__ = (
        "_candidates",
        "_entity_path",
        "_filter",
        "_held",
        "_searches_left",
        "_takes_over",
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
        asked: SessionFilter,
    ) -> None:
        super().__init__(connection, link, path, (), SubQueueType.MAIN, deletes)
        self._filter = asked
        self._wanted = asked.session_id
        self._entity_path = entity.record.path
        fragments = entity.fragments
        self._takes_over = 0
        """The lock of the receiver to be replaced (SES-27)."""
        gateway = connection.gateway
        if asked.token is not None:
            fragments, self._takes_over = self._holder(fragments, asked.token)
        elif self._wanted is not None:
            fragments = [fragments[fragment_index(self._wanted, len(fragments))]]
        self._candidates = [SessionSource(self, gateway, f, deletes) for f in fragments]
        self._searches_left = len(fragments)
        self._held: HeldSession | None = None
        self._timer: Timer | None = None

    # --- on the way to a session --------------------------------------------------------------

    def _holder(
        self, fragments: Sequence[Fragment], token: uuid.UUID
    ) -> tuple[list[Fragment], int]:
        """The fragment that issued a lock token, and the number of the lock there."""
        for fragment in fragments:
            prefix = self._connection.gateway.token_prefix(fragment.fragment_id)
            number = prefix.number_of(token)
            if number:
                return [fragment], number
        raise SessionLockLost

    def open(self) -> None:
        """Request the session; the client's attach is answered when it is held."""
        for source in self._candidates:
            source.is_exclusive = self._filter.is_exclusive
        if self._wanted is not None or self._takes_over:
            self._candidates[0].accept(self._wanted, False, self._takes_over)
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
        """Take the oldest session that the fragments have; wait at all of them when there is
        none."""
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
        """A session is held: answer the client, and stop waiting at the other fragments."""
        if self._held is not None:
            source.close()
            return
        self._held = HeldSession(source.fragment, session_id, lock)
        self._stop_waiting(source)
        self._sources = [source]
        self._connection.held_sessions[self._entity_path, session_id] = self
        self._link.accept(
            source=source_with_filter(
                self._link.source_raw, self._filter.answered(session_id, _token(source, lock))
            ),
            properties={LOCKED_UNTIL_PROPERTY: ticks_of(locked_until_ms)},
        )
        self._connection.has_output()
        self.flow()

    def _stop_waiting(self, chosen: SessionSource | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for source in self._candidates:
            if source is not chosen and not source.is_closed:
                source.close()

    def session_refused(self, source: SessionSource, error: BusError) -> None:
        """A fragment has no session to give: search again, or refuse the client."""
        if self._held is not None:
            return
        is_certain = self._wanted is not None or self._takes_over
        if not is_certain and not isinstance(error, EntityNotFound):
            self._search()
        else:
            self._connection.drop(self._link, error)

    def session_lost(self, source: SessionSource, error: BusError) -> None:
        """The session is lost: it is free at once, and the link is detached a moment later."""
        if not isinstance(error, SessionLockLost):
            self._connection.drop(self._link, error)
            return
        source.close()
        self._sources = []
        drop = partial(self._connection.drop, self._link, error)
        self._timer = self._connection.gateway.scheduler.call_later_ms(LOST_NOTICE_MS, drop)

    def out_of_reach(self, source: SessionSource) -> None:
        """A fragment is unreachable, and its sessions are free again."""
        if self._held is not None:
            self._connection.drop(self._link, SessionLockLost())
        elif self._wanted is not None or self._takes_over:
            self._connection.drop(self._link, StoreUnavailable())

    # --- as a receiving link --------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The name that the client gave the link."""
        return self._link.name

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
        # The client may already hold the session by another link.
        if held is not None and sessions.get((self._entity_path, held.session_id)) is self:
            del sessions[self._entity_path, held.session_id]
        self._stop_waiting(None)


def _token(source: SessionSource, lock: int) -> uuid.UUID:
    """The lock of a session as a token that its holder may pass on."""
    return uuid.UUID(bytes=source.token_prefix.in_uuids + pack_number(lock))
