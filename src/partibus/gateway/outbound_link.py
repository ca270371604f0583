"""A link on which a client receives: messages out, settlements in.

Owns the demand, the deliveries and the settlements of one receiving link. It asks its
fragment for no more than the client's credit, the session's window and the socket can take,
encodes what comes, and answers each settlement when the fragment says that it is durable
(two-step settlement, amqp-contract rule 7). It holds no message: what is not settled stays
locked in the fragment and outlives the link (LCK-7).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from partibus.amqp.delivery import (
    ACCEPTED,
    MODIFIED,
    MODIFIED_UNDELIVERABLE,
    REJECTED,
    RELEASED,
    Accepted,
    Delivery,
    DeliveryState,
    Modified,
    Rejected,
)
from partibus.amqp.link import Link
from partibus.domain.errors import ArgumentError, BusError, MessageLockLost
from partibus.domain.limits import HEADER_BYTES_MAX
from partibus.fragment.commands import Demand, Detach, Lane, Outcome, Settle
from partibus.fragment.handle import Fragment
from partibus.fragment.message import Held, Overlay
from partibus.gateway.envelope import overlay_pairs, to_delivery
from partibus.gateway.faults import rejection
from partibus.gateway.lanes import client_sequence
from partibus.gateway.lock_token import TokenPrefix, pack_number

if TYPE_CHECKING:
    from partibus.gateway.connection import ClientConnection

PULL_MESSAGES_MAX: Final = 256
"""Messages asked for ahead of what was written: bounds what waits in the socket's buffer."""
DEAD_LETTER_KEYS: Final = ("DeadLetterReason", "DeadLetterErrorDescription")


class Settlement:
    """Deliveries that a client settles in one go, and how to answer it."""

    __slots__ = ("answer", "deliveries")

    def __init__(self, deliveries: Sequence[Delivery], answer: bytes) -> None:
        self.deliveries = deliveries
        self.answer = answer


class OutboundLink:
    """One receiving link of a client."""

    __slots__ = (
        "_connection",
        "_consumer",
        "_deletes",
        "_fragment",
        "_is_closed",
        "_lane",
        "_limit",
        "_link",
        "_prefix",
        "_sequence_base",
        "_written",
        "path",
    )

    def __init__(
        self,
        connection: "ClientConnection",
        link: Link,
        path: str,
        fragment: Fragment,
        lane: Lane,
        deletes: bool,
    ) -> None:
        self._connection = connection
        self._link = link
        self.path = path
        self._fragment = fragment
        self._lane = lane
        self._deletes = deletes
        self._consumer = fragment.consumer(self, lane, deletes)
        self._prefix: TokenPrefix = connection.gateway.token_prefix(fragment.fragment_id)
        self._sequence_base = client_sequence(fragment.index, 0)
        self._written = 0
        self._limit = 0
        self._is_closed = False

    # --- demand ---------------------------------------------------------------------------

    def flow(self) -> None:
        """The client changed its credit, or asks to be drained."""
        self.pull(changed=True)

    def pull(self, changed: bool = False) -> None:
        """Ask for as many messages as may be written now."""
        link = self._link
        room = min(link.sendable(), PULL_MESSAGES_MAX) if self._connection.is_writable else 0
        limit = self._written + room
        if link.drain and self._connection.is_writable:
            self._limit = limit
            self._fragment.submit(Demand(self._consumer, limit, room == link.credit))
        elif limit != self._limit and (changed or self._is_running_low(limit)):
            self._limit = limit
            self._fragment.submit(Demand(self._consumer, limit, False))

    def _is_running_low(self, limit: int) -> bool:
        """Whether it is time to ask for more: not for each message, not too late."""
        return self._limit <= self._written or limit - self._limit >= PULL_MESSAGES_MAX // 2

    # --- from the fragment ------------------------------------------------------------------

    def deliver(self, messages: Sequence[Held], bodies: Sequence[bytes]) -> None:
        """Write messages to the client, in order."""
        if self._is_closed:
            self._give_back(messages)
            return
        send = self._link.send
        base = self._sequence_base
        self._written += len(messages)
        if self._deletes:
            for held, body in zip(messages, bodies, strict=True):
                send(to_delivery(body, held, base | held.sequence, b""), b"", True, 0, None)
        else:
            prefix = self._prefix
            in_tags, in_uuids = prefix.in_tags, prefix.in_uuids
            for held, body in zip(messages, bodies, strict=True):
                number = pack_number(held.token)
                payload = to_delivery(body, held, base | held.sequence, in_uuids + number)
                send(payload, in_tags + number, False, 0, held.token)
        self._connection.has_output()
        self.pull()

    def _give_back(self, messages: Sequence[Held]) -> None:
        """Nobody is there any more: unlock at once, without counting a delivery (DLV-5)."""
        if not self._deletes:
            tokens = [held.token for held in messages]
            self._fragment.submit(Settle(None, None, self._lane, tokens, Outcome.RELEASE))

    def drained(self) -> None:
        """Nothing more is there; the client's credit is void."""
        if not self._is_closed:
            self._link.drained()
            self._limit = self._written
            self._connection.has_output()

    # --- settlement -------------------------------------------------------------------------

    def settle(
        self, deliveries: Sequence[Delivery], state: DeliveryState | None, is_settled: bool
    ) -> None:
        """The client settles deliveries; `is_settled` means that it wants no answer."""
        try:
            outcome, overlay, answer = outcome_of(state)
        except BusError as error:
            self._answer(deliveries, rejection(error), is_settled)
            return
        tokens = [token for d in deliveries if isinstance(token := d.context, int)]
        port = None if is_settled else self
        request = Settlement(deliveries, answer)
        self._fragment.submit(Settle(port, request, self._lane, tokens, outcome, overlay))

    def _answer(
        self, deliveries: Sequence[Delivery], outcome: bytes, is_settled: bool = False
    ) -> None:
        if is_settled or self._is_closed:
            return
        settle_sent = self._link.settle_sent
        for delivery in deliveries:
            settle_sent(delivery, outcome)
        self._connection.has_output()

    def settled(self, request: object, lost: Sequence[int], error: BusError | None) -> None:
        """The fragment has settled, or could not."""
        assert isinstance(request, Settlement)
        if error is not None:
            self._answer(request.deliveries, rejection(error))
        elif not lost:
            self._answer(request.deliveries, request.answer)
        else:
            gone = set(lost)
            done = [d for d in request.deliveries if d.context not in gone]
            failed = [d for d in request.deliveries if d.context in gone]
            self._answer(done, request.answer)
            self._answer(failed, rejection(MessageLockLost()))
        self.pull()

    def closed(self) -> None:
        """The link is gone; its locks stay until they lapse."""
        self._is_closed = True
        self._fragment.submit(Detach(self._consumer))


def outcome_of(state: DeliveryState | None) -> tuple[Outcome, Overlay | None, bytes]:
    """What a delivery state asks for, and the state to confirm it with (AMQ-2, CON-27)."""
    if isinstance(state, Accepted):
        return Outcome.COMPLETE, None, ACCEPTED
    if isinstance(state, Modified):
        changed = changed_properties(state.annotations)
        if state.undeliverable_here:
            return Outcome.DEFER, changed, MODIFIED_UNDELIVERABLE
        return Outcome.ABANDON, changed, MODIFIED
    if isinstance(state, Rejected):
        info = state.error.info if state.error is not None else None
        return Outcome.DEAD_LETTER, dead_letter_overlay(info or {}), REJECTED
    # `released`, and a settlement without any state: unlock, count nothing, lose nothing.
    return Outcome.RELEASE, None, RELEASED


def changed_properties(properties: dict[str, object]) -> Overlay | None:
    """Properties to modify, as an overlay (LCK-10)."""
    if not properties:
        return None
    pairs = overlay_pairs(properties)
    if len(pairs) > HEADER_BYTES_MAX:
        raise ArgumentError(
            f"The properties to modify take {len(pairs)} bytes; {HEADER_BYTES_MAX} are allowed."
        )
    return Overlay(pairs)


def dead_letter_overlay(info: dict[str, object]) -> Overlay:
    """Reason, description and further properties of a dead-letter settlement (SEED-101)."""
    reason, description = (info.get(key) for key in DEAD_LETTER_KEYS)
    others = {key: value for key, value in info.items() if key not in DEAD_LETTER_KEYS}
    changed = changed_properties(others)
    return Overlay(
        changed.properties if changed is not None else b"",
        str(reason) if reason is not None else None,
        str(description) if description is not None else None,
    )
