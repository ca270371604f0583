"""A link on which a client receives: messages out, settlements in.

Owns the deliveries and the settlements of one receiving link, and how its room is spread
over the fragments it draws from. It asks for no more than the client's credit, the session's
window and the socket can take, encodes what comes, and answers each settlement when the
fragment says that it is durable (two-step settlement, amqp-contract rule 7). It holds no
message: what is not settled stays locked in the fragment and outlives the link (LCK-7).
"""

import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from partibus.amqp.delivery import Delivery, DeliveryState, TransactionalState
from partibus.amqp.link import Link
from partibus.domain.errors import BusError, MessageLockLost
from partibus.fragment.commands import Outcome, SubQueueType
from partibus.fragment.handle import Fragment
from partibus.fragment.message import Held
from partibus.gateway.error_mapping import rejection
from partibus.gateway.links.outcomes import HEADER_SIZE_EXCEEDED, outcome_of, outgrows
from partibus.gateway.links.source import Lock, Source, lock_of
from partibus.gateway.transactions.settlement import settle_in_transaction
from partibus.message.envelope import header_bytes, to_delivery
from partibus.message.lock_token import NO_LOCK, pack_number
from partibus.message.trace_context import TracedMessage

if TYPE_CHECKING:
    from partibus.gateway.connection import ClientConnection

PULL_MESSAGES_MAX: Final = 256
PULL_BYTES_MAX: Final = 4 * 1024 * 1024
"""Demand ahead of what was written: bounds what waits in the socket's buffer."""
MESSAGE_BYTES_GUESS: Final = 256 * 1024
"""The assumed message size of a link until some have been seen."""


class Settlement:
    """Deliveries that a client settles together, and how to answer it."""

    __slots__ = ("answer", "begun_s", "deliveries", "outcome")

    def __init__(self, deliveries: Sequence[Delivery], answer: bytes, outcome: Outcome) -> None:
        self.deliveries = deliveries
        self.answer = answer
        self.outcome = outcome
        self.begun_s = time.monotonic()


class OutboundLink:
    """One receiving link of a client."""

    __slots__ = (
        "_connection",
        "_deletes",
        "_drain_waits",
        "_is_closed",
        "_link",
        "_message_bytes",
        "_pull_max",
        "_ready",
        "_sources",
        "_to_drain",
        "_unsent",
        "message_count",
        "path",
    )

    def __init__(
        self,
        connection: "ClientConnection",
        link: Link,
        path: str,
        fragments: Sequence[Fragment],
        subqueue: SubQueueType,
        deletes: bool,
    ) -> None:
        self._connection = connection
        self._link = link
        self.path = path
        self._deletes = deletes
        gateway = connection.gateway
        self._sources: list[Source] = [
            Source(self, gateway, f, subqueue, deletes) for f in fragments
        ]
        self._ready: deque[Source] = deque()
        """Sources known to have messages; the next to ask comes first."""
        self._to_drain: deque[Source] | None = None
        """Sources still to be asked before the client's drain is answered."""
        self._drain_waits = False
        """Whether the client's drain continues when there is room to write again."""
        self._unsent: deque[bytes] = deque()
        self._message_bytes = MESSAGE_BYTES_GUESS
        self._pull_max = PULL_BYTES_MAX // MESSAGE_BYTES_GUESS
        self.message_count = 0
        """Messages that were delivered on it."""
        self._is_closed = False

    # --- demand ---------------------------------------------------------------------------

    def open(self) -> None:
        """With several fragments, wait for them to report messages; a single one gets demand
        directly."""
        if len(self._sources) > 1:
            for source in self._sources:
                source.show_interest()

    def flow(self) -> None:
        """The client changed its credit, or asks to be drained."""
        if self._unsent:
            self._send_unsent()
            self._connection.has_output()
        if len(self._sources) == 1:
            self._pull_single(self._sources[0], True)
        elif self._link.drain and self._to_drain is None:
            self._to_drain = deque(self._sources)
            self._drain_next()
        else:
            self.pull()

    def pull(self) -> None:
        """Demand as many messages as may be written now."""
        if len(self._sources) == 1:
            self._pull_single(self._sources[0], self._drain_waits)
        elif self._to_drain is None:
            self._pull_spread()
        elif self._drain_waits:
            self._drain_next()

    def withdraw(self) -> None:
        """Withdraw the demand: what has not been delivered stays where it is."""
        for source in self._sources:
            if source.granted > 0:
                source.demand(0, False)

    def _room(self) -> int:
        """How many messages may be written now."""
        if self._connection.is_writable:
            return min(self._link.sendable(), PULL_MESSAGES_MAX, self._pull_max)
        return 0

    def _note_size(self, bodies: Sequence[bytes]) -> None:
        """Demand fewer messages at a time when they are large; at least one."""
        size = sum([len(body) for body in bodies]) // len(bodies)
        self._message_bytes = max(size, (3 * self._message_bytes + size) // 4)
        pull_bytes = self._connection.gateway.memory.pull(PULL_BYTES_MAX)
        self._pull_max = max(1, pull_bytes // (self._message_bytes + 1))

    def _pull_single(self, source: Source, changed: bool) -> None:
        """Demand everything from the only fragment; updated only when the change is worth a
        command."""
        room = self._room()
        if self._link.drain:
            if changed and self._may_drain(room):
                source.demand(room, True)
        elif room != source.granted and (
            changed or source.granted <= 0 or room - source.granted >= PULL_MESSAGES_MAX // 2
        ):
            source.demand(room, False)

    def _pull_spread(self) -> None:
        """Spread the room evenly over the fragments that have something (SEED-8)."""
        room = self._room() - sum([source.granted for source in self._sources])
        while room > 0 and self._ready:
            share = max(1, room // len(self._ready))
            self._ready.popleft().demand(share, True)
            room -= share

    def _may_drain(self, room: int) -> bool:
        """Whether a drain can continue: with credit left but no room to write it must wait, since
        an answer now would report that there are no more messages [2.6.7]."""
        self._drain_waits = room <= 0 and self._link.credit > 0
        return not self._drain_waits

    def _drain_next(self) -> None:
        """Drain one source after the other, then answer the client. A source that was asked
        before, for the drain or for credit, answers first: its messages come before the answer."""
        assert self._to_drain is not None
        if any(source.is_asked for source in self._sources):
            return
        room = self._room()
        if self._to_drain and not self._may_drain(room):
            return
        if self._to_drain and room > 0:
            self._to_drain.popleft().demand(room, True)
            return
        self._answer_drain()

    def _answer_drain(self) -> None:
        """All sources were asked; a client that has given new credit meanwhile expects no
        answer."""
        self._to_drain = None
        if self._link.drain:
            self._link.drained()
            self._connection.has_output()
        else:
            self.pull()

    # --- from the sources -------------------------------------------------------------------

    def write(self, source: Source, messages: Sequence[Held], bodies: Sequence[bytes]) -> None:
        """Write messages to the client, in order."""
        self._note_size(bodies)
        self.message_count += len(messages)
        gateway = self._connection.gateway
        if messages:
            waited_ms = gateway.now_ms() - messages[0].enqueued_ms
            gateway.meters.delivery.observe(waited_ms / 1000)
        base = source.sequence_base
        tracing = gateway.namespace.tracing
        traced: dict[int, TracedMessage] | None = None
        if not self._deletes:
            messages = self._within_credit(source, messages)
        if tracing is not None:
            index = source.fragment.index
            traced = tracing.delivered(self.path, index, messages, bodies, gateway.now_ms())
            if traced and not self._deletes:
                tracing.remember(source.fragment.fragment_id, traced)
        if self._deletes:
            for held, body in zip(messages, bodies, strict=True):
                self._unsent.append(to_delivery(body, held, base | held.sequence, b""))
            self._send_unsent()
        else:
            send = self._link.send
            in_tags, in_uuids = source.token_prefix.in_tags, source.token_prefix.in_uuids
            for held, body in zip(messages, bodies, strict=False):
                number = pack_number(held.token)
                payload = to_delivery(body, held, base | held.sequence, in_uuids + number)
                lock = Lock(source, held.token, header_bytes(body, held))
                if traced is not None:
                    lock.trace = traced.get(held.token)
                send(payload, in_tags + number, False, 0, lock)
        self._connection.has_output()
        self.pull()

    def _within_credit(self, source: Source, messages: Sequence[Held]) -> Sequence[Held]:
        """A client may withdraw credit while messages are in flight: unlock the excess."""
        credit = self._link.credit
        if len(messages) <= credit:
            return messages
        tokens = [held.token for held in messages[credit:]]
        source.settle(None, tokens, Outcome.RELEASE, None)
        return messages[:credit]

    def _send_unsent(self) -> None:
        """Receive-and-delete messages are already gone from the queue: they wait here for
        credit."""
        link = self._link
        tag = NO_LOCK if self._connection.gateway.profile.fills_tags else b""
        while self._unsent and link.credit > 0:
            link.send(self._unsent.popleft(), tag, True, 0, None)

    def ran_dry(self, source: Source, unused: int) -> None:
        """A source delivered what it had; its unused room goes to the others."""
        if len(self._sources) == 1:
            self._single_ran_dry(source, unused)
            return
        source.show_interest()
        if self._to_drain is None:
            self._pull_spread()
            return
        if unused == 0 and source not in self._to_drain:
            self._to_drain.appendleft(source)  # it may have more
        self._drain_next()

    def _single_ran_dry(self, source: Source, unused: int) -> None:
        room = self._room()
        if not self._link.drain or unused:
            self._answer_drain()
        elif self._may_drain(room):
            if room > 0:
                source.demand(room, True)
            else:
                self._answer_drain()

    def has_messages(self, source: Source) -> None:
        """A source has messages."""
        if source not in self._ready:
            self._ready.append(source)
        self.pull()

    def came_back(self, source: Source) -> None:
        """Ask a source again that was unreachable; one that is in line is asked anyway."""
        if len(self._sources) == 1:
            self._pull_single(source, True)
        elif source not in self._ready:
            source.show_interest()

    # --- settlement -------------------------------------------------------------------------

    def settle(
        self, deliveries: Sequence[Delivery], state: DeliveryState | None, is_settled: bool
    ) -> None:
        """The client settles deliveries; `is_settled` means that it wants no answer."""
        if isinstance(state, TransactionalState):
            settle_in_transaction(self, deliveries, state, is_settled)
            return
        try:
            outcome, overlay, answer = outcome_of(state)
        except BusError as error:
            if not is_settled:
                self._answer(deliveries, rejection(error))
            return
        groups: dict[Source, list[Delivery]] = {}
        swollen: list[Delivery] = []
        for delivery in deliveries:
            lock = lock_of(delivery)
            if overlay is not None and outgrows(lock.header_bytes, outcome, overlay):
                swollen.append(delivery)
            elif lock.source in groups:
                groups[lock.source].append(delivery)
            else:
                groups[lock.source] = [delivery]
        for source, group in groups.items():
            tokens = [lock_of(delivery).token for delivery in group]
            request = None if is_settled else Settlement(group, answer, outcome)
            source.settle(request, tokens, outcome, overlay)
        for delivery in swollen:
            lock = lock_of(delivery)
            request = None if is_settled else Settlement([delivery], answer, Outcome.DEAD_LETTER)
            lock.source.settle(request, [lock.token], Outcome.DEAD_LETTER, HEADER_SIZE_EXCEEDED)
        if is_settled:
            self._trace(deliveries, outcome, 0.0, None)

    def settled(self, request: object, lost: Sequence[int], error: BusError | None) -> None:
        """The fragment has settled, or failed."""
        assert isinstance(request, Settlement)
        meter = self._connection.gateway.meters.settlement
        elapsed_s = time.monotonic() - request.begun_s
        meter.observe(elapsed_s)
        if error is not None:
            self._answer(request.deliveries, rejection(error))
            self._trace(request.deliveries, request.outcome, elapsed_s, error)
        elif not lost:
            self._answer(request.deliveries, request.answer)
            self._trace(request.deliveries, request.outcome, elapsed_s, None)
        else:
            gone = set(lost)
            done = [d for d in request.deliveries if lock_of(d).token not in gone]
            failed = [d for d in request.deliveries if lock_of(d).token in gone]
            self._answer(done, request.answer)
            self._answer(failed, rejection(self._lock_lost()))
            self._trace(done, request.outcome, elapsed_s, None)
            self._trace(failed, request.outcome, elapsed_s, self._lock_lost())
        self._go_on()

    def _trace(
        self,
        deliveries: Sequence[Delivery],
        outcome: Outcome,
        elapsed_s: float,
        error: BusError | None,
    ) -> None:
        """A settlement ended: make its spans where messages are traced."""
        tracing = self._connection.gateway.namespace.tracing
        if tracing is not None:
            locks = [lock_of(delivery) for delivery in deliveries]
            for lock in locks:
                tracing.settling(lock.source.fragment.fragment_id, [lock.token])
            found = [lock.trace for lock in locks if lock.trace is not None]
            tracing.settled(self.path, found, outcome, elapsed_s, error)

    def _lock_lost(self) -> BusError:
        return MessageLockLost()

    def answer(self, deliveries: Sequence[Delivery], outcome: bytes) -> None:
        """Answer settlements that were part of a transaction."""
        self._answer(deliveries, outcome)
        self._go_on()

    def _go_on(self) -> None:
        """Settled deliveries freed window space."""
        self.pull()
        if not self._is_closed:
            self._connection.wake(self._link.session)

    @property
    def connection(self) -> "ClientConnection":
        """The connection that it belongs to."""
        return self._connection

    @property
    def session(self) -> object:
        """The AMQP session that it is in."""
        return self._link.session

    def _answer(self, deliveries: Sequence[Delivery], outcome: bytes) -> None:
        if self._is_closed:
            return
        settle_sent = self._link.settle_sent
        for delivery in deliveries:
            settle_sent(delivery, outcome)
        self._connection.has_output()

    def closed(self) -> None:
        """The link is gone."""
        self._is_closed = True
        for source in self._sources:
            source.close()
