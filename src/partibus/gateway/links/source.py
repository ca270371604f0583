"""One fragment as the source of a receiving link.

Owns the link's consumer at that fragment: the prefix of its lock tokens, the base of its sequence
numbers and the current demand. The link decides how its room is spread over its sources; a source
only passes demand there and messages back.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from partibus.amqp.delivery import Delivery
from partibus.domain.errors import BusError
from partibus.domain.sequence import client_sequence
from partibus.fragment.commands import (
    Consumer,
    Demand,
    Detach,
    Interest,
    Outcome,
    Settle,
    SubQueueType,
)
from partibus.fragment.handle import Fragment
from partibus.fragment.message import Held, Overlay
from partibus.message.trace_context import TracedMessage

if TYPE_CHECKING:
    from partibus.gateway.gateway import Gateway


class SourceLink(Protocol):
    """What a source needs of its link."""

    def write(self, source: "Source", messages: Sequence[Held], bodies: Sequence[bytes]) -> None:
        """Messages have come from a source."""
        ...

    def ran_dry(self, source: "Source", unused: int) -> None:
        """A source has delivered what it had, or all that was demanded."""
        ...

    def has_messages(self, source: "Source") -> None:
        """Messages wait at a source without demand."""
        ...

    def came_back(self, source: "Source") -> None:
        """A source that was unreachable must be asked again."""
        ...

    def settled(self, request: object, lost: Sequence[int], error: BusError | None) -> None:
        """A settlement ended."""
        ...


class Source:
    """The link's end of one fragment."""

    __slots__ = (
        "_consumer",
        "_link",
        "fragment",
        "granted",
        "is_asked",
        "is_closed",
        "sequence_base",
        "subqueue",
        "taken",
        "token_prefix",
    )

    def __init__(
        self,
        link: SourceLink,
        gateway: "Gateway",
        fragment: Fragment,
        subqueue: SubQueueType,
        deletes: bool,
    ) -> None:
        self._link = link
        self.fragment = fragment
        self.subqueue = subqueue
        self._consumer = self._new_consumer(deletes)
        self.token_prefix = gateway.token_prefix(fragment.fragment_id)
        self.sequence_base = client_sequence(fragment.index, 0)
        self.taken = 0
        """Messages it has delivered since the beginning."""
        self.granted = 0
        """Messages it may still deliver for the current demand."""
        self.is_asked = False
        """Whether it still has to report that it has no more for the current demand."""
        self.is_closed = False

    def _new_consumer(self, deletes: bool) -> Consumer:
        return self.fragment.consumer(self, self.subqueue, deletes)

    # --- to the fragment --------------------------------------------------------------------

    def demand(self, count: int, drain: bool) -> None:
        """Allow it to deliver up to this many more messages."""
        self.granted = count
        self.is_asked = drain
        self.fragment.submit(Demand(self._consumer, self.taken + count, drain))

    def show_interest(self) -> None:
        """Ask to be notified when messages wait there."""
        self.fragment.submit(Interest(self._consumer))

    def settle(
        self, request: object | None, tokens: list[int], outcome: Outcome, overlay: Overlay | None
    ) -> None:
        """Settle locks of this fragment; `request` None wants no answer."""
        port = self if request is not None else None
        self.fragment.submit(Settle(port, request, self.subqueue, tokens, outcome, overlay))

    def close(self) -> None:
        """The link is gone; its locks stay until they lapse (LCK-7)."""
        self.is_closed = True
        self.fragment.submit(Detach(self._consumer))

    # --- from the fragment ------------------------------------------------------------------

    def deliver(self, messages: Sequence[Held], bodies: Sequence[bytes]) -> None:
        """Messages for the link."""
        self.taken += len(messages)
        self.granted -= len(messages)
        if self.is_closed:
            # The link is gone: unlock at once, without counting a delivery (DLV-5).
            tokens = [held.token for held in messages if held.token]
            self.settle(None, tokens, Outcome.RELEASE, None)
        else:
            self._link.write(self, messages, bodies)

    def settled(self, request: object, lost: Sequence[int], error: BusError | None) -> None:
        """A settlement ended."""
        self._link.settled(request, lost, error)

    def drained(self) -> None:
        """It has no more for the demand."""
        unused, self.granted = self.granted, 0
        self.is_asked = False
        if not self.is_closed:
            self._link.ran_dry(self, unused)

    def available(self) -> None:
        """Messages wait."""
        if not self.is_closed:
            self._link.has_messages(self)

    def interrupted(self) -> None:
        """It is unreachable, and the demand is void."""
        self.granted = 0
        self.is_asked = False

    def resumed(self) -> None:
        """It is reachable again, and has no demand."""
        if not self.is_closed:
            self._link.came_back(self)


class Lock:
    """What a delivery keeps for its settlement."""

    __slots__ = ("header_bytes", "source", "token", "trace")

    def __init__(self, source: Source, token: int, header_bytes: int) -> None:
        self.source = source
        self.token = token
        self.header_bytes = header_bytes
        """Size of the message's header and properties as delivered."""
        self.trace: TracedMessage | None = None
        """What the span of its settlement needs, where there is one."""


def lock_of(delivery: Delivery) -> Lock:
    """The lock that a delivery carries."""
    lock = delivery.context
    assert isinstance(lock, Lock)
    return lock
