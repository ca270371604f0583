"""The link of a JMS consumer that receives from a queue by a selector.

Owns the search for matching messages: the link walks over waiting messages page by page, locks
those that its selector matches, and leaves the rest to others (JMS-5). At the end it polls for new
messages, and from time to time for returned ones. Settlement is that of any receiving link.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from partibus.amqp.delivery import Accepted, Delivery, DeliveryState
from partibus.amqp.link import Link
from partibus.domain.errors import BusError
from partibus.domain.scheduler import Timer
from partibus.domain.sequence import client_sequence
from partibus.fragment.commands import Peek, Pick, SubQueueType
from partibus.fragment.handle import Fragment
from partibus.fragment.message import Held
from partibus.gateway.jms.consumer import ConsumerLink
from partibus.gateway.jms.matching import Selector
from partibus.gateway.links.source import Source
from partibus.gateway.operations.peek import PEEK_BYTES_MAX

if TYPE_CHECKING:
    from partibus.gateway.connection import ClientConnection

PAGE_MESSAGES_MAX: Final = 250
LOOK_MS: Final = 100
"""Time between two polls; one peek per fragment, from the last message seen on."""
FULL_LOOKS: Final = 20
"""After this many polls all waiting messages are searched again: locks may have ended meanwhile."""


class SelectingLink(ConsumerLink):
    """One consumer of a queue with a selector."""

    __slots__ = (
        "_at",
        "_full_looks",
        "_is_reading",
        "_looks",
        "_next",
        "_selector",
        "_subqueue",
        "_timer",
    )

    def __init__(
        self,
        connection: "ClientConnection",
        link: Link,
        path: str,
        fragments: Sequence[Fragment],
        subqueue: SubQueueType,
        selector: Selector,
    ) -> None:
        super().__init__(connection, link, path, fragments, subqueue, False)
        self._subqueue = subqueue
        self._selector = selector
        self._at = 0
        """The current fragment."""
        self._next = [0] * len(fragments)
        """The number to continue from in each of them."""
        self._is_reading = False
        self._looks = 0
        self._full_looks = 0
        """Full searches that are due, since messages may be about to be returned."""
        self._timer: Timer | None = None

    def open(self) -> None:
        """It sends requests only when it has credit."""

    def flow(self) -> None:
        """The client changed its credit, or asks to be drained."""
        if self._timer is not None or self._at >= len(self._sources):
            self._begin_look()
        self.pull()

    def pull(self) -> None:
        """Search while there is room; at the end wait a while, or answer a drain."""
        if self._is_reading or self._is_closed or self._timer is not None or self._room() <= 0:
            return
        if self._at < len(self._sources):
            self._is_reading = True
            page = (self._next[self._at], PAGE_MESSAGES_MAX, PEEK_BYTES_MAX, None, True)
            self._sources[self._at].fragment.submit(Peek(self, self._subqueue, *page))
            return
        if self._link.drain:
            self._link.drained()
            self._connection.has_output()
        else:
            scheduler = self._connection.gateway.scheduler
            self._timer = scheduler.call_later_ms(LOOK_MS, self._look_again)

    def _look_again(self) -> None:
        self._begin_look()
        self.pull()

    def _begin_look(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._at = 0
        self._looks += 1
        if self._full_looks or self._looks % FULL_LOOKS == 0:
            self._full_looks = max(0, self._full_looks - 1)
            self._next = [0] * len(self._sources)

    # --- from the fragment ------------------------------------------------------------------

    def found(self, messages: Sequence[Held], bodies: Sequence[bytes]) -> None:
        """A page of waiting messages: lock those that match, as many as there is room for."""
        source, room = self._sources[self._at], self._room()
        wanted: list[int] = []
        for held, body in zip(messages, bodies, strict=True):
            if len(wanted) >= room:
                break
            self._next[self._at] = held.sequence + 1
            sequence = client_sequence(source.fragment.index, held.sequence)
            if body and self._selector.selects(body, sequence, held.enqueued_ms):
                wanted.append(held.sequence)
        if not messages:
            self._at += 1
        if self._is_closed or not wanted:
            self._is_reading = False
            self.pull()
        else:
            source.fragment.submit(Pick(_Picked(self, self._at), self._subqueue, wanted))

    def picked(self, at: int, messages: Sequence[Held], bodies: Sequence[bytes]) -> None:
        """Messages are locked for this link."""
        self._is_reading = False
        source = self._sources[at]
        source.granted = len(messages)
        if messages:
            source.deliver(messages, bodies)
        self.pull()

    def failed(self, error: BusError) -> None:
        """A fragment cannot be read now; it is asked again at the next poll."""
        self._is_reading = False
        self._at += 1
        self.pull()

    def came_back(self, source: Source) -> None:
        """A fragment that was unreachable is searched like the others."""
        self.pull()

    def settle(
        self, deliveries: Sequence[Delivery], state: DeliveryState | None, is_settled: bool
    ) -> None:
        """A returned message matches again as soon as it waits."""
        if not isinstance(state, Accepted):
            self._full_looks = FULL_LOOKS
        super().settle(deliveries, state, is_settled)

    def closed(self) -> None:
        """The link is gone."""
        super().closed()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _Picked:
    """Receives what was locked."""

    __slots__ = ("_at", "_link")

    def __init__(self, link: SelectingLink, at: int) -> None:
        self._link = link
        self._at = at

    def found(self, messages: Sequence[Held], bodies: Sequence[bytes]) -> None:
        """These are locked."""
        self._link.picked(self._at, messages, bodies)

    def failed(self, error: BusError) -> None:
        """The fragment cannot lock anything now."""
        self._link.failed(error)
