"""One fragment as the source of a session link.

Owns the link's consumer at that fragment while a session is sought and held there. It passes the
link's request there and the outcome back; the link decides.
"""

from typing import TYPE_CHECKING

from partibus.domain.errors import BusError
from partibus.fragment.commands import Consumer, SubQueueType
from partibus.fragment.handle import Fragment
from partibus.fragment.sessions.commands import AcceptSession, SessionConsumer
from partibus.gateway.links.source import Source

if TYPE_CHECKING:
    from partibus.gateway.gateway import Gateway
    from partibus.gateway.links.session import SessionLink


class SessionSource(Source):
    """The link's end of one fragment, with at most one session of it."""

    __slots__ = ("_is_waiting", "_session_consumer", "_session_link", "is_exclusive")

    def __init__(
        self, link: "SessionLink", gateway: "Gateway", fragment: Fragment, deletes: bool
    ) -> None:
        self._session_link = link
        self._is_waiting = False
        self.is_exclusive = True
        """Whether the session is for this link alone (SES-26)."""
        self._session_consumer: SessionConsumer
        super().__init__(link, gateway, fragment, SubQueueType.MAIN, deletes)

    def _new_consumer(self, deletes: bool) -> Consumer:
        self._session_consumer = self.fragment.session_consumer(self, deletes)
        return self._session_consumer

    @property
    def is_available(self) -> bool:
        """Whether the fragment's store answers."""
        return self.fragment.is_available

    def accept(self, session_id: str | None, waits: bool, takes_over: int = 0) -> None:
        """Request a session, any session, or to replace the holder of a lock."""
        self._is_waiting = waits
        consumer, is_exclusive = self._session_consumer, self.is_exclusive
        command = AcceptSession(consumer, session_id, waits, is_exclusive, takes_over)
        self.fragment.submit(command)

    # --- from the fragment ------------------------------------------------------------------

    def accepted(self, session_id: str, locked_until_ms: int, lock: int) -> None:
        """A session is held; if the link has left, its detach is already under way."""
        self._is_waiting = False
        if not self.is_closed:
            self._session_link.session_accepted(self, session_id, locked_until_ms, lock)

    def not_accepted(self, error: BusError) -> None:
        """No session is held."""
        if not self.is_closed:
            self._session_link.session_refused(self, error)

    def session_lost(self, error: BusError) -> None:
        """The session is lost."""
        if not self.is_closed:
            self._session_link.session_lost(self, error)

    def interrupted(self) -> None:
        """The fragment is unreachable and has released its sessions."""
        super().interrupted()
        if not self.is_closed:
            self._session_link.out_of_reach(self)

    def resumed(self) -> None:
        """It is back: a link that waited for any session gets in line again."""
        if self._is_waiting and not self.is_closed:
            self.accept(None, True)
