"""Senders and receivers of the client, on the engine's links.

Owns the waiting: for credit, for settlements, for messages. One future wakes a whole
group of waiters, so that a pipelined message costs no future of its own. Must never touch
the socket: the wire flushes. Called by tools, tests and benchmarks.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from partibus.amqp.delivery import ACCEPTED, RELEASED, Accepted, Delivery, DeliveryState, Rejected
from partibus.amqp.errors import AmqpError
from partibus.amqp.events import TransferReceived
from partibus.amqp.link import Link
from partibus.client.errors import RemoteError
from partibus.domain import conditions

Outcomes = dict[int, AmqpError | None]
"""The outcomes of payloads, by index: None is accepted."""
SEND_WINDOW: Final = 500
# Written to the socket at least this often while sending many.
_FLUSH_EVERY: Final = 64


class LinkOwner:
    """What senders and receivers share: a link, and waiting for it to move."""

    def __init__(self, flush: Callable[[], None]) -> None:
        self.link: Link | None = None
        self.flush = flush
        self.error: RemoteError | None = None
        self.writable = True
        self._moved: asyncio.Future[None] | None = None

    def attached(self, link: Link) -> None:
        self.link = link

    def wake(self) -> None:
        if self._moved is not None and not self._moved.done():
            self._moved.set_result(None)
        self._moved = None

    def fail(self, error: AmqpError | None, context: str) -> None:
        if self.error is None:
            self.error = RemoteError(error, context)
        self.wake()

    async def moved(self) -> None:
        """Wait for a change of the link; raises when it has ended."""
        if self.error is None:
            self.flush()
            if self._moved is None:
                self._moved = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._moved)
        if self.error is not None:
            raise self.error

    def usable(self) -> Link:
        if self.error is not None:
            raise self.error
        assert self.link is not None
        return self.link

    async def close(self) -> None:
        """Detach, and wait until the bus has done so too."""
        if self.link is not None:
            self.link.detach()
        with contextlib.suppress(RemoteError):
            while self.error is None:
                await self.moved()


class Sender(LinkOwner):
    """Sends encoded messages, many of them in flight at a time."""

    def __init__(self, flush: Callable[[], None]) -> None:
        super().__init__(flush)
        self._next_tag = 0
        self._in_flight = 0
        self.accepted = 0
        """How many messages, or batches, the bus has accepted."""
        self._refusal: AmqpError | None = None
        self._refused = False

    async def post(
        self, payload: bytes, *, window: int = SEND_WINDOW, message_format: int = 0
    ) -> None:
        """Send one as soon as there is room, and do not wait for its confirmation."""
        link = self.usable()
        while self._in_flight >= window or not self.writable or link.sendable() <= 0:
            await self.moved()
        self._raise_refusal()
        self._next_tag += 1
        link.send(payload, self._next_tag.to_bytes(4, "big"), False, message_format, None)
        self._in_flight += 1
        self.flush()

    async def confirmed(self) -> None:
        """Wait until everything sent so far is confirmed; raises the first refusal."""
        while self._in_flight > 0:
            await self.moved()
        self._raise_refusal()

    async def send(self, payload: bytes, message_format: int = 0) -> None:
        """Send one message and wait until the bus has accepted it."""
        await self.send_many([payload], message_format=message_format)

    async def send_many(
        self, payloads: Iterable[bytes], *, window: int = SEND_WINDOW, message_format: int = 0
    ) -> int:
        """Send with up to `window` unconfirmed; returns how many once all are confirmed."""
        count = 0
        for payload in payloads:
            link = self.usable()
            while self._in_flight >= window or not self.writable or link.sendable() <= 0:
                await self.moved()
            self._next_tag += 1
            link.send(payload, self._next_tag.to_bytes(4, "big"), False, message_format, None)
            self._in_flight += 1
            count += 1
            if count % _FLUSH_EVERY == 0:
                self.flush()
        await self.confirmed()
        return count

    async def offer(
        self, parcels: Iterable[tuple[bytes, int]], outcomes: "Outcomes", *, window: int
    ) -> None:
        """Send payloads with their message formats, and record the outcome of each by index.

        Raises when the link ends before the last answer; a missing outcome is unknown.
        """
        for place, (payload, message_format) in enumerate(parcels):
            link = self.usable()
            while self._in_flight >= window or not self.writable or link.sendable() <= 0:
                await self.moved()
            self._next_tag += 1
            tag = self._next_tag.to_bytes(4, "big")
            link.send(payload, tag, False, message_format, (outcomes, place))
            self._in_flight += 1
            self.flush()
        while self._in_flight > 0:
            await self.moved()

    def _raise_refusal(self) -> None:
        if self._refused:
            self._refused = False
            raise RemoteError(self._refusal, "The bus refused a message")

    def settled(self, deliveries: Sequence[Delivery], state: DeliveryState | None) -> None:
        self._in_flight -= len(deliveries)
        if deliveries[0].context is not None:
            self._note(deliveries, state)
        elif isinstance(state, Accepted):
            self.accepted += len(deliveries)
        elif not self._refused:
            self._refused = True
            self._refusal = state.error if isinstance(state, Rejected) else None
        self.wake()

    def _note(self, deliveries: Sequence[Delivery], state: DeliveryState | None) -> None:
        error: AmqpError | None = None
        if not isinstance(state, Accepted):
            error = state.error if isinstance(state, Rejected) else None
            error = error or AmqpError(conditions.INTERNAL_ERROR, "refused without a reason")
        for delivery in deliveries:
            assert isinstance(delivery.context, tuple)
            outcomes, place = delivery.context
            outcomes[place] = error


@dataclass(eq=False, slots=True)
class ReceivedMessage:
    """A message as received: its sections are in `payload`, its lock token in `tag`."""

    delivery_id: int
    tag: bytes
    settled: bool
    payload: bytes


class Receiver(LinkOwner):
    """Receives with a standing credit of `prefetch`, or with credit on demand when 0."""

    def __init__(self, flush: Callable[[], None], prefetch: int) -> None:
        super().__init__(flush)
        self._prefetch = prefetch
        self._ready: deque[ReceivedMessage] = deque()
        self._proposed: dict[int, None] = {}
        self._refusal: AmqpError | None = None

    def attached(self, link: Link) -> None:
        super().attached(link)
        if self._prefetch:
            link.set_credit(self._prefetch)

    def take(self, event: TransferReceived) -> None:
        message = ReceivedMessage(event.delivery_id, event.tag, event.settled, event.payload)
        self._ready.append(message)
        link = self.link
        if link is not None and self._prefetch and link.credit * 2 <= self._prefetch:
            link.set_credit(self._prefetch)
        self.wake()

    async def receive(self, count: int = 1) -> list[ReceivedMessage]:
        """Up to `count` messages, as soon as there is one. Bound it with asyncio.timeout."""
        link = self.usable()
        missing = count - len(self._ready)
        if not self._prefetch and missing > 0 and link.credit < missing:
            link.set_credit(missing)
        while not self._ready:
            await self.moved()
        return [self._ready.popleft() for _ in range(min(count, len(self._ready)))]

    async def settle(self, messages: Iterable[ReceivedMessage], outcome: bytes = ACCEPTED) -> None:
        """Request an outcome and wait until the bus has settled all of them (two-step)."""
        link = self.usable()
        wanted = [message.delivery_id for message in messages if not message.settled]
        for delivery_id in wanted:
            self._proposed[delivery_id] = None
            link.propose(delivery_id, outcome)
        while any(delivery_id in self._proposed for delivery_id in wanted):
            await self.moved()
        if self._refusal is not None:
            refusal, self._refusal = self._refusal, None
            raise RemoteError(refusal, "The bus refused a settlement")

    def settled(self, first: int, last: int, state: DeliveryState | None) -> None:
        span = (last - first) & 0xFFFFFFFF
        done = [n for n in self._proposed if (n - first) & 0xFFFFFFFF <= span]
        for delivery_id in done:
            del self._proposed[delivery_id]
        if done and isinstance(state, Rejected) and state.error is not None:
            self._refusal = state.error
        self.wake()

    async def drain(self) -> None:
        """Withdraw the credit; what the bus has already sent can still be received."""
        link = self.usable()
        self._prefetch = 0
        link.set_credit(link.credit, drain=True)
        while link.drain:
            await self.moved()

    async def collect(self, count: int) -> list[ReceivedMessage]:
        """Up to `count` messages that are available now; empty when there are none."""
        link = self.usable()
        if len(self._ready) < count:
            link.set_credit(count - len(self._ready), drain=True)
            while link.drain:
                await self.moved()
        return [self._ready.popleft() for _ in range(min(count, len(self._ready)))]

    def release(self, messages: Iterable[ReceivedMessage]) -> None:
        """Release locked messages at once, as if they had never been delivered."""
        if self.error is None and self.link is not None:
            for message in messages:
                if not message.settled:
                    self.link.settle(message.delivery_id, RELEASED)
            self.flush()

    async def give_back(self, messages: Iterable[ReceivedMessage] = ()) -> None:
        """Release these and all that was not received yet, and request no more.

        The credit is withdrawn first: otherwise released messages would come back here.
        """
        await self.drain()
        self.release([*messages, *self.take_ready()])

    def take_ready(self) -> list[ReceivedMessage]:
        """The messages that have arrived and were not received yet."""
        ready = list(self._ready)
        self._ready.clear()
        return ready
