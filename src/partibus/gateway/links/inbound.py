"""A link on which a client sends: transfers in, confirmations out.

Owns the sends of one link between the wire and their fragment. What one read of the socket
brought is gathered and handed over as one command; a send is accepted when its fragment
says that it is durable, and rejected with the reason otherwise. Back-pressure: credit grows
only as sends are confirmed, and a connection stops reading when too much is unconfirmed.
"""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from partibus.amqp.codec.decode import DecodeError
from partibus.amqp.codec.sections import split_batch
from partibus.amqp.delivery import ACCEPTED, TransactionalState, transactional_state
from partibus.amqp.events import TransferReceived
from partibus.amqp.link import Link
from partibus.domain.errors import ArgumentError, BusError, MalformedMessage
from partibus.gateway.error_mapping import amqp_error, rejection
from partibus.gateway.links.submission import Submissions
from partibus.gateway.namespace import Entity, require_session_ids, too_large
from partibus.gateway.router import Router
from partibus.gateway.transactions.enlistment import enlist_messages, place_messages
from partibus.message.envelope import received_to_stored, to_stored

if TYPE_CHECKING:
    from partibus.gateway.connection import ClientConnection

BATCH_FORMAT: Final = 0x80013700
"""message-format of the vendor's batch: data sections that each contain a message."""
CREDIT: Final = 1000
"""Unconfirmed sends a link may have while memory is plenty; topped up when half is used."""
MESSAGE_BYTES_GUESS: Final = 1024
"""The assumed message size of a link until one has been seen."""
BATCH_MESSAGES_MAX: Final = 4500
"""Messages in one batch; the cloud's own limit, and a bound on what one transfer expands to."""


class InboundLink:
    """One sending link of a client."""

    __slots__ = (
        "_connection",
        "_credit_used",
        "_detects_duplicates",
        "_entity",
        "_granted",
        "_is_gone",
        "_is_open",
        "_last_presettled",
        "_link",
        "_message_bytes",
        "_parts",
        "_requires_session",
        "_stands_alone",
        "_submissions",
        "_timed",
        "_timed_s",
        "_turns_decimals",
        "_unconfirmed",
        "_via",
        "message_count",
        "path",
        "paths",
        "router",
    )

    def __init__(
        self, connection: "ClientConnection", link: Link, entity: Entity, via: Entity | None = None
    ) -> None:
        self._connection = connection
        self._link = link
        self._entity = entity
        self._via = via
        """The transfer entity that a transaction's messages pass through (TXN-6)."""
        self._requires_session = entity.spec.requires_session
        """Kept because every message passes here; most need no call."""
        self._detects_duplicates = entity.spec.requires_duplicate_detection
        self._stands_alone = entity.refuses_unwanted
        """Each send is a separate command, because each may be refused individually."""
        gateway = connection.gateway
        profile = gateway.namespace.profile
        self._turns_decimals = profile.turns_decimals
        self.router = Router(entity.fragments, gateway.random_start(), profile.splits_batches)
        self.path = entity.record.path
        self.paths: tuple[str, ...] = (self.path,)
        """All entities that it needs the right to send to (TXN-6)."""
        if via is not None:
            self.paths = (self.path, via.record.path)
        self._credit_used = 0
        self._granted = CREDIT
        self._message_bytes = MESSAGE_BYTES_GUESS
        """Of the last send."""
        self.message_count = 0
        """Messages received on it, except those of transactions and refused ones."""
        self._is_open = self._is_gone = False
        self._last_presettled = -1
        self._timed = 0
        self._timed_s = 0.0
        """The send being timed, and when it came; 0.0 when there is none."""
        self._unconfirmed: dict[int, int] = {}
        """Bytes of each pending send, by delivery id; those sent settled have negative ids."""
        self._submissions = Submissions(self, entity.fragments, gateway.namespace.tracing)
        """What this read brought."""
        self._parts: dict[int, int] = {}
        """Parts of a split batch that are not confirmed yet, by delivery id."""

    # --- from the wire ------------------------------------------------------------------

    def transfer(self, event: TransferReceived) -> None:
        """Take a whole message, or a batch of them."""
        try:
            self._take(event)
        except BusError as error:
            self.refuse(event, error)

    def refuse(self, event: TransferReceived, error: BusError) -> None:
        """Reject a send before any fragment has seen it."""
        self._credit_used += 1
        if isinstance(event.state, TransactionalState):
            self._connection.transactions.fail(event.state.txn_id, error)
        if not event.settled:
            self._link.settle(event.delivery_id, rejection(error))
        # No submission follows to grant credit: a client whose sends are all refused must not
        # stall.
        self._top_up()

    def _take(self, event: TransferReceived) -> None:
        if event.state is not None and isinstance(event.state, TransactionalState):
            self._take_in_transaction(event, event.state.txn_id)
            return
        if event.message_format == BATCH_FORMAT:
            parts = self._unpack(event.payload)
            messages = [
                to_stored(part, self._detects_duplicates, self._turns_decimals) for part in parts
            ]
        else:
            message = received_to_stored(
                event.buf,
                event.start,
                event.end,
                event.rest,
                self._detects_duplicates,
                self._turns_decimals,
            )
            messages = [message]
        if self._requires_session:
            require_session_ids(self._entity, messages)
        size = sum([len(message.body) for message in messages])
        request = event.delivery_id
        if event.settled:
            # The client expects no outcome, not even a failure (SEED-91).
            request = self._last_presettled = self._last_presettled - 1
        if self._submissions.is_empty:
            self._connection.has_sends(self)
        part_count = self._submissions.route(messages, request, size)
        if part_count > 1:
            self._parts[request] = part_count
        self._message_bytes = size
        self.message_count += len(messages)
        self._unconfirmed[request] = size
        if self._timed_s == 0.0:
            self._timed, self._timed_s = request, time.monotonic()
        self._connection.unconfirmed_bytes += size
        if self._stands_alone:
            self.submit()

    def _take_in_transaction(self, event: TransferReceived, txn_id: bytes) -> None:
        """Collect a send for the commit; its acceptance is provisional (TXN-2)."""
        connection = self._connection
        transaction = connection.transactions.begin(txn_id)
        is_batch = event.message_format == BATCH_FORMAT
        payloads = self._unpack(event.payload) if is_batch else [event.payload]
        messages = [
            to_stored(payload, self._detects_duplicates, self._turns_decimals)
            for payload in payloads
        ]
        require_session_ids(self._entity, messages)
        session = self._link.session
        parts = place_messages(
            connection, transaction, self._entity, self._via, session, messages, payloads
        )
        enlist_messages(transaction, parts, connection.gateway.namespace.tracing)
        self._credit_used += 1
        if not event.settled:
            self._link.settle(event.delivery_id, transactional_state(txn_id, ACCEPTED))
        self._top_up()

    def _unpack(self, payload: bytes) -> list[bytes]:
        try:
            encoded = split_batch(payload)
        except DecodeError as cause:
            raise MalformedMessage(f"The batch is not well-formed: {cause}.") from cause
        if not 0 < len(encoded) <= BATCH_MESSAGES_MAX:
            raise ArgumentError(
                f"The batch holds {len(encoded)} messages; 1 to {BATCH_MESSAGES_MAX} are allowed."
            )
        return encoded

    def submit(self) -> None:
        """Hand over what this read brought, as one command for each fragment."""
        self._submissions.submit()
        self._top_up()

    # --- from the fragment ----------------------------------------------------------------

    def confirmed(
        self, requests: Sequence[int], first_sequence: int, dropped: Sequence[int] = ()
    ) -> None:
        """Accept the sends that are now durable, and duplicates of them (DUP-1)."""
        settle = self._link.settle
        for delivery_id in requests:
            if delivery_id in self._unconfirmed and not self._waits_for_parts(delivery_id):
                if delivery_id >= 0:
                    settle(delivery_id, ACCEPTED)
                self._forget(delivery_id)
        self._go_on()

    def _waits_for_parts(self, delivery_id: int) -> bool:
        """Whether other parts of a split batch are still pending."""
        if not self._parts or delivery_id not in self._parts:
            return False
        self._parts[delivery_id] -= 1
        if self._parts[delivery_id]:
            return True
        del self._parts[delivery_id]
        return False

    def refused(self, requests: Sequence[int], error: BusError) -> None:
        """Reject the sends that were not stored."""
        outcome = rejection(error)
        for delivery_id in requests:
            if delivery_id in self._unconfirmed:
                self._parts.pop(delivery_id, None)
                if delivery_id >= 0:
                    self._link.settle(delivery_id, outcome)
                self._forget(delivery_id)
        self._go_on()

    def _forget(self, delivery_id: int) -> None:
        self._credit_used += 1
        size = self._unconfirmed.pop(delivery_id)
        if delivery_id == self._timed and self._timed_s != 0.0:
            meter = self._connection.gateway.meters.send
            meter.observe(time.monotonic() - self._timed_s)
            self._timed_s = 0.0
        if self._is_gone:
            self._connection.gateway.memory.orphaned(-size)
        else:
            self._connection.unconfirmed_bytes -= size

    def _go_on(self) -> None:
        """Sends were answered: grant the client more credit."""
        if not self._is_gone:
            self._top_up()
            self._connection.has_output()

    def _top_up(self) -> None:
        if self._credit_used * 2 >= self._granted:
            self._credit_used = 0
            memory = self._connection.gateway.memory
            self._granted = memory.credit(CREDIT, self._message_bytes)
            self._link.set_credit(max(0, self._granted - len(self._unconfirmed)))

    # --- changes of the entity ----------------------------------------------------------------

    def follow_entity(self) -> None:
        """The entity has new properties: its message size limit applies to this link too."""
        self._link.max_message_size = self._entity.message_bytes_max
        self._link.oversize_error = amqp_error(too_large(self._entity))

    def refuse_all(self, error: BusError) -> None:
        """Refuse the pending sends: the entity accepts no more, and the link is about to be
        detached."""
        self.refused(list(self._unconfirmed), error)

    @property
    def unconfirmed_count(self) -> int:
        """Sends that have not been answered."""
        return len(self._unconfirmed)

    # --- end --------------------------------------------------------------------------------

    def open(self) -> None:
        """Grant the client its first credit."""
        memory = self._connection.gateway.memory
        self._is_open = True
        memory.sender_count += 1
        self._granted = memory.credit(CREDIT, self._message_bytes)
        self._link.set_credit(self._granted)

    def closed(self) -> None:
        """The link is gone; pending sends stay in memory until the store has them."""
        memory = self._connection.gateway.memory
        if self._is_open:
            self._is_open = False
            memory.sender_count -= 1
        size = sum(self._unconfirmed.values())
        self._connection.unconfirmed_bytes -= size
        memory.orphaned(size)
        self._is_gone = True
