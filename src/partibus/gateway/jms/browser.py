"""A link on which a client browses: copies of what waits, and nothing is taken.

Owns the walk of one browser over the fragments of an entity, page by page and within the client's
credit, without the messages that its selector does not match (JMS-7). A drain is answered at the
end of the walk; later arrivals are for the next browser.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from partibus.amqp.link import Link
from partibus.domain.errors import BusError
from partibus.domain.sequence import client_sequence
from partibus.fragment.commands import Peek, SubQueueType
from partibus.fragment.handle import Fragment
from partibus.fragment.message import Held
from partibus.gateway.jms.matching import Selector
from partibus.gateway.links.outbound import OutboundLink
from partibus.gateway.operations.peek import PEEK_BYTES_MAX
from partibus.message.envelope import to_peeked

if TYPE_CHECKING:
    from partibus.gateway.connection import ClientConnection

PAGE_MESSAGES_MAX: Final = 100


class BrowserLink(OutboundLink):
    """One browser of a client."""

    __slots__ = ("_at", "_fragments", "_is_reading", "_next", "_selector", "_subqueue")

    def __init__(
        self,
        connection: "ClientConnection",
        link: Link,
        path: str,
        fragments: Sequence[Fragment],
        subqueue: SubQueueType,
        selector: Selector | None,
    ) -> None:
        super().__init__(connection, link, path, (), subqueue, True)
        self._fragments = fragments
        self._subqueue = subqueue
        self._selector = selector
        self._at = self._next = 0
        """The current fragment, and the number to continue from there."""
        self._is_reading = False

    def flow(self) -> None:
        """The client changed its credit, or asks to be drained."""
        self.pull()

    def pull(self) -> None:
        """Read on while there is credit; at the end a drain is answered."""
        if self._is_reading or self._is_closed:
            return
        room = self._room()
        if room > 0 and self._at < len(self._fragments):
            self._is_reading = True
            count = min(room, PAGE_MESSAGES_MAX)
            page = (self._next, count, PEEK_BYTES_MAX, None, True)
            self._fragments[self._at].submit(Peek(self, self._subqueue, *page))
        elif self._link.drain and self._at >= len(self._fragments):
            self._link.drained()
            self._connection.has_output()

    # --- from the fragment ------------------------------------------------------------------

    def found(self, messages: Sequence[Held], bodies: Sequence[bytes]) -> None:
        """A page of a fragment; after an empty one the next fragment follows."""
        self._is_reading = False
        if self._is_closed:
            return
        index = self._fragments[self._at].index
        for held, body in zip(messages, bodies, strict=True):
            self._next = held.sequence + 1
            self._show(held, body, client_sequence(index, held.sequence))
        if not messages:
            self._at, self._next = self._at + 1, 0
        self._connection.has_output()
        self.pull()

    def _show(self, held: Held, body: bytes, sequence: int) -> None:
        selector = self._selector
        if not body:
            return
        if selector is None or selector.selects(body, sequence, held.enqueued_ms):
            self._link.send(to_peeked(body, held, sequence), b"", True, 0, None)

    def failed(self, error: BusError) -> None:
        """A fragment cannot be read."""
        self._is_reading = False
        if not self._is_closed:
            self._connection.drop(self._link, error)
