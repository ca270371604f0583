"""A link on which a client sends to any entity: each message names its own.

Owns the sends of a link whose target has no address, the anonymous terminus of AMQP: the `to` of a
message is where it goes, and rights and limits are those of that entity (AMQ-6). A message that
cannot go there is rejected on its own. Plain sending links are served by `inbound`, which is made
for speed.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from partibus.amqp.codec.decode import DecodeError
from partibus.amqp.codec.sections import decode_properties, parse_sections
from partibus.amqp.delivery import ACCEPTED, TransactionalState, transactional_state
from partibus.amqp.events import TransferReceived
from partibus.amqp.link import Link
from partibus.domain.address import parse_address
from partibus.domain.errors import ArgumentError, BusError, MalformedMessage
from partibus.domain.rights import Rights
from partibus.fragment.commands import Enqueue
from partibus.fragment.handle import Fragment
from partibus.fragment.message import NewMessage
from partibus.gateway.error_mapping import rejection
from partibus.gateway.namespace import Entity, require_sendable, require_session_ids, too_large
from partibus.gateway.router import Router
from partibus.gateway.tracing import traced_port
from partibus.gateway.transactions.enlistment import enlist_messages, place_messages
from partibus.message.envelope import to_stored

if TYPE_CHECKING:
    from partibus.gateway.connection import ClientConnection

CREDIT: Final = 100
"""Unconfirmed sends; topped up when half is used."""


class RelayLink:
    """One sending link of a client without a target."""

    __slots__ = ("_connection", "_is_gone", "_last_presettled", "_link", "_unconfirmed", "_used")

    def __init__(self, connection: "ClientConnection", link: Link) -> None:
        self._connection = connection
        self._link = link
        self._is_gone = False
        self._used = 0
        self._last_presettled = -1
        self._unconfirmed: dict[int, int] = {}
        """Bytes of each pending send, by delivery id; those sent settled have negative ids."""

    def open(self) -> None:
        """Grant the client its first credit."""
        self._link.set_credit(CREDIT)

    def transfer(self, event: TransferReceived) -> None:
        """Send a message to the entity that it names."""
        self._used += 1
        try:
            entity, message = self._read(event.payload)
            if isinstance(event.state, TransactionalState):
                self._enlist(event, event.state.txn_id, entity, message)
            else:
                self._submit(event, entity, message)
        except BusError as error:
            if isinstance(event.state, TransactionalState):
                self._connection.transactions.fail(event.state.txn_id, error)
            if not event.settled:
                self._link.settle(event.delivery_id, rejection(error))
        self._top_up()

    def _read(self, payload: bytes) -> tuple[Entity, NewMessage]:
        """The entity that a message is for, and its stored form there."""
        try:
            to = decode_properties(payload, parse_sections(payload)).to
        except DecodeError as cause:
            raise MalformedMessage(f"The message is not well-formed: {cause}.") from cause
        if not to:
            raise ArgumentError("The link has no target; name the entity in the message's 'to'.")
        address, gateway = parse_address(to), self._connection.gateway
        self._connection.grants.require(address.path, Rights.SEND, gateway.now_ms())
        entity = gateway.namespace.resolve(address)
        require_sendable(entity, address)
        if len(payload) > entity.message_bytes_max:
            raise too_large(entity)
        detects = entity.spec.requires_duplicate_detection
        message = to_stored(payload, detects, gateway.profile.turns_decimals)
        require_session_ids(entity, [message])
        return entity, message

    def _submit(self, event: TransferReceived, entity: Entity, message: NewMessage) -> None:
        request = event.delivery_id
        if event.settled:
            request = self._last_presettled = self._last_presettled - 1
        size = len(message.body)
        self._unconfirmed[request] = size
        self._connection.unconfirmed_bytes += size
        fragment = self._fragment(entity, message)
        tracing, path = self._connection.gateway.namespace.tracing, entity.record.path
        port = traced_port(tracing, "send", path, fragment.index, [message], self)
        fragment.submit(Enqueue(port, [message], [request], size))

    def _fragment(self, entity: Entity, message: NewMessage) -> Fragment:
        gateway = self._connection.gateway
        router = Router(entity.fragments, gateway.random_start(), gateway.profile.splits_batches)
        ((key, _),) = router.group([message])
        fragment = router.keyed(key) if key is not None else router.next_keyless()
        assert fragment is not None
        return fragment

    def _enlist(
        self, event: TransferReceived, txn_id: bytes, entity: Entity, message: NewMessage
    ) -> None:
        """Collect a send for the commit; its acceptance is provisional (TXN-2)."""
        transaction = self._connection.transactions.begin(txn_id)
        session, payloads = self._link.session, [event.payload]
        parts = place_messages(
            self._connection, transaction, entity, None, session, [message], payloads
        )
        enlist_messages(transaction, parts, self._connection.gateway.namespace.tracing)
        if not event.settled:
            self._link.settle(event.delivery_id, transactional_state(txn_id, ACCEPTED))

    # --- from the fragment ----------------------------------------------------------------

    def confirmed(
        self, requests: Sequence[int], first_sequence: int, dropped: Sequence[int] = ()
    ) -> None:
        """Accept the sends that are now durable."""
        self._answer(requests, ACCEPTED)

    def refused(self, requests: Sequence[int], error: BusError) -> None:
        """Reject the sends that were not stored."""
        self._answer(requests, rejection(error))

    def _answer(self, requests: Sequence[int], outcome: bytes) -> None:
        for request in requests:
            size = self._unconfirmed.pop(request)
            if self._is_gone:
                self._connection.gateway.memory.orphaned(-size)
                continue
            self._connection.unconfirmed_bytes -= size
            if request >= 0:
                self._link.settle(request, outcome)
        if not self._is_gone:
            self._top_up()
            self._connection.has_output()

    def _top_up(self) -> None:
        if self._used * 2 >= CREDIT:
            self._used = 0
            self._link.set_credit(max(0, CREDIT - len(self._unconfirmed)))

    def closed(self) -> None:
        """The link is gone; pending sends stay in memory until the store has them."""
        size = sum(self._unconfirmed.values())
        self._connection.unconfirmed_bytes -= size
        self._connection.gateway.memory.orphaned(size)
        self._is_gone = True
