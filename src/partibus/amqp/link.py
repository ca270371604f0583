"""Links: attach and detach, credit, drain, and one end of every message [2.6].

Owns the state of one link: its names and modes, the credit on it, and the message that is being put
together from frames. Must never judge an address or a message. The session routes frames here; the
owner calls `accept`, `send`, `settle` and similar methods.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from partibus.amqp import conditions, performatives
from partibus.amqp.codec.encode import ENCODED_NULL, encode_uint
from partibus.amqp.delivery import Delivery, DeliveryState, rejected
from partibus.amqp.errors import AmqpError, LinkError, SessionError
from partibus.amqp.events import Event, TransferReceived, TransferRefused
from partibus.amqp.serial import distance
from partibus.amqp.settings import DELIVERY_TAG_BYTES_MAX, TRANSFERS_WITHOUT_CREDIT_MAX
from partibus.amqp.terminus import Coordinator, Source, Target
from partibus.amqp.transfer import TransferTail, transfer_prefix
from partibus.amqp.unfinished import Assembly

if TYPE_CHECKING:
    from partibus.amqp.session import Session

_MASK: Final = 0xFFFFFFFF

NO_MEMORY: Final = (
    "The server has no memory left for more unfinished messages. Wait a few seconds and try again."
)


class Link:
    """One link of a session. `is_sender` is our role: true when we send to the peer.

    `source`, `target`, `properties` and `remote_max_message_size` are the peer's, as it attached.
    `max_message_size` is our limit: announced by `accept`, and enforced; an owner that wants to
    refuse a larger message itself raises it afterwards. `context` belongs to the owner.
    """

    __slots__ = (
        "_assembly",
        "_drained_after_queue",
        "answers_detach",
        "attach_sent",
        "attached",
        "context",
        "credit",
        "delivery_count",
        "desired_capabilities",
        "detach_received",
        "detach_sent",
        "drain",
        "failed",
        "handle",
        "is_sender",
        "left_unsettled",
        "max_message_size",
        "name",
        "overdraft",
        "oversize_error",
        "peer_closed",
        "prefix",
        "prefix_tag_bytes",
        "properties",
        "queued",
        "rcv_settle_mode",
        "remote_handle",
        "remote_max_message_size",
        "session",
        "snd_settle_mode",
        "source",
        "source_raw",
        "target",
        "target_raw",
    )

    def __init__(self, session: "Session", name: str, handle: int, is_sender: bool) -> None:
        self.session = session
        self.name = name
        self.handle = handle
        self.is_sender = is_sender
        self.remote_handle = -1
        self.source: Source | None = None
        self.target: Target | Coordinator | None = None
        self.source_raw = ENCODED_NULL
        self.target_raw = ENCODED_NULL
        self.snd_settle_mode: int | None = None
        self.rcv_settle_mode: int | None = None
        self.max_message_size = session.connection.settings.max_message_size
        # The error for the sender of a larger message; the owner may provide a better one.
        self.oversize_error: AmqpError | None = None
        self.remote_max_message_size = 0
        self.properties: dict[str, object] = {}
        self.desired_capabilities: list[str] = []
        self.context: object = None
        self.credit = 0
        self.drain = False
        self.delivery_count = 0
        self.overdraft = 0
        # True from when both sides have attached until either detaches.
        self.attached = False
        self.attach_sent = False
        self.detach_sent = False
        self.detach_received = False
        # What we sent and the peer had not settled when the link ended.
        self.left_unsettled: list[Delivery] = []
        self.answers_detach = True  # False when the owner answers the peer's detach itself
        self.peer_closed = False  # the peer closed the link, not only detached it
        # Detached by the engine for an error: the owner has had its LinkFailed.
        self.failed = False
        # Deliveries of this link that wait in the session for the peer's window.
        self.queued = 0
        self.prefix = b""
        self.prefix_tag_bytes = -1
        self._assembly: Assembly | None = None
        self._drained_after_queue = False

    def __repr__(self) -> str:
        role = "sender" if self.is_sender else "receiver"
        return f"Link({self.name!r}, {role}, {self.handle})"

    # --- attach and detach --------------------------------------------------------------------

    def take_attach(self, frame: performatives.AttachFrame) -> None:
        """Store the peer's half of the link."""
        self.remote_handle = frame.handle
        self.source = frame.source
        self.target = frame.target
        self.properties = frame.properties
        self.desired_capabilities = frame.desired_capabilities
        self.remote_max_message_size = frame.max_message_size
        if not self.is_sender:
            self.delivery_count = frame.initial_delivery_count
        if self.attach_sent:
            self.attached = not self.detach_sent
        else:
            self.snd_settle_mode = frame.snd_settle_mode
            self.rcv_settle_mode = frame.rcv_settle_mode
            self.source_raw = frame.source_raw
            self.target_raw = frame.target_raw

    def accept(
        self,
        *,
        max_message_size: int | None = None,
        properties: Mapping[str, object] | None = None,
        source: bytes | None = None,
        target: bytes | None = None,
    ) -> None:
        """Answer the peer's attach, echoing both ends unless new ones are given.

        Does nothing when the link has gone in the meantime.
        """
        if self.attach_sent or not self.session.active:
            return
        if max_message_size is not None:
            self.max_message_size = max_message_size
        self.write_attach(
            self.source_raw if source is None else source,
            self.target_raw if target is None else target,
            properties,
        )
        self.attached = True

    def refuse(self, error: AmqpError) -> None:
        """Answer the peer's attach with nothing at either end, then detach [2.6.3]."""
        self.detach(error)

    def detach(self, error: AmqpError | None = None, closed: bool = True) -> None:
        """Detach once; calls after that, or after the session's end, do nothing."""
        if self.detach_sent or not self.session.active:
            return
        if not self.attach_sent:
            self.write_attach(ENCODED_NULL, ENCODED_NULL, None)
        self.session.flush_dispositions()
        self.session.write(performatives.encode_detach(self.handle, closed, error))
        self.detach_sent = True
        self.attached = False
        self.forget()
        self.session.release(self)

    def write_attach(
        self, source: bytes, target: bytes, properties: Mapping[str, object] | None
    ) -> None:
        """Open a link from our side, or answer the peer's attach."""
        self.attach_sent = True
        self.source_raw = self.target_raw = b""
        self.session.write(
            performatives.encode_attach(
                self.name,
                self.handle,
                not self.is_sender,
                self.snd_settle_mode,
                self.rcv_settle_mode,
                source,
                target,
                self.max_message_size,
                properties,
            )
        )

    def forget(self) -> None:
        """Drop pending deliveries: the link has ended."""
        self._drop_assembly()
        if self.is_sender:
            self.session.outgoing.forget_link(self)
        self.credit = 0

    # --- we send ------------------------------------------------------------------------------

    def sendable(self) -> int:
        """How many messages can be sent now without waiting for the peer.

        Less than the credit while the session is full; then a FlowReceived for this link
        follows when the peer has made room.
        """
        if not self.attached:
            return 0
        outgoing = self.session.outgoing
        room = outgoing.room()
        if room >= self.credit:
            return self.credit
        outgoing.starved = True
        return room

    def send(
        self, payload: bytes, tag: bytes, settled: bool, message_format: int, context: object
    ) -> Delivery:
        """Send a message; takes one credit. Order is kept even when the session is full."""
        assert self.attached and self.credit > 0, "sending needs an attached link with credit"
        delivery = Delivery(self, tag, settled, message_format, context)
        self.delivery_count = (self.delivery_count + 1) & _MASK
        self.credit -= 1
        self.session.outgoing.send(delivery, payload)
        return delivery

    def send_with_state(
        self, payload: bytes, tag: bytes, state: bytes, context: object
    ) -> Delivery:
        """Send a message unsettled with a delivery state, as part of a transaction [4.4.1]."""
        assert self.attached and self.credit > 0, "sending needs an attached link with credit"
        delivery = Delivery(self, tag, False, 0, context)
        self.delivery_count = (self.delivery_count + 1) & _MASK
        self.credit -= 1
        self.session.outgoing.send_with_state(delivery, payload, state)
        return delivery

    def transfer_prefix(self, tag_bytes: int, message_format: int) -> bytes:
        """The head of this link's transfers; kept for the usual tag and format."""
        if message_format != 0:
            return transfer_prefix(self.session.channel, self.handle, tag_bytes, message_format)
        if tag_bytes != self.prefix_tag_bytes:
            assert tag_bytes <= DELIVERY_TAG_BYTES_MAX
            self.prefix = transfer_prefix(self.session.channel, self.handle, tag_bytes, 0)
            self.prefix_tag_bytes = tag_bytes
        return self.prefix

    def settle_sent(self, delivery: Delivery, state: bytes) -> None:
        """Settle a message that we sent, and forget it; ignored if it is forgotten already."""
        session = self.session
        if session.outgoing.unsettled.pop(delivery.delivery_id, None) is None:
            return
        delivery.settled = True
        session.sender_settled.add(delivery.delivery_id, state)
        session.mark_dirty()

    def drained(self) -> None:
        """Return the remaining credit: the peer asked to drain and there are no more messages."""
        if not self.attached:
            return
        if self.queued > 0:
            self._drained_after_queue = True
            return
        self.delivery_count = (self.delivery_count + self.credit) & _MASK
        self.credit = 0
        self.session.write_flow(self.flow_fields(True))
        self.drain = False

    def left_queue(self) -> None:
        """A delivery of this link has gone out after waiting in the session."""
        self.queued -= 1
        if self.queued == 0 and self._drained_after_queue:
            self._drained_after_queue = False
            self.drained()

    def take_flow(self, frame: performatives.FlowFrame) -> bool:
        """Credit from the peer [2.6.7]; true when the owner should be notified."""
        if not self.is_sender:
            return self._take_sender_flow(frame)
        if frame.link_credit >= 0:
            seen = frame.delivery_count if frame.delivery_count >= 0 else 0
            in_flight = distance(seen, self.delivery_count)
            self.credit = max(0, frame.link_credit - in_flight)
        self.drain = frame.drain
        return True

    def _take_sender_flow(self, frame: performatives.FlowFrame) -> bool:
        """From a sending peer: only relevant as the answer to our drain."""
        if not (self.drain and frame.drain and frame.link_credit == 0):
            return False
        if frame.delivery_count >= 0:
            self.delivery_count = frame.delivery_count
        self.credit = 0
        self.drain = False
        return True

    # --- we receive ---------------------------------------------------------------------------

    def set_credit(self, credit: int, drain: bool = False) -> None:
        """Let the peer send `credit` messages from now on, replacing what it had."""
        if not self.attach_sent or self.detach_sent:
            return
        self.credit = credit
        self.overdraft = 0
        self.drain = drain
        self.session.write_flow(self.flow_fields(drain))

    def settle(self, delivery_id: int, state: bytes) -> None:
        """Settle a message that we received."""
        if not self.attached:
            return
        session = self.session
        session.receiver_settled.add(delivery_id, state)
        if not session.dirty:
            session.mark_dirty()

    def propose(self, delivery_id: int, state: bytes) -> None:
        """Propose an outcome for a received message; the sender answers by settling it."""
        if not self.attached:
            return
        self.session.receiver_unsettled.add(delivery_id, state)
        self.session.mark_dirty()

    def flow_fields(self, drain: bool) -> list[bytes]:
        return [
            encode_uint(self.handle),
            encode_uint(self.delivery_count),
            encode_uint(self.credit),
            ENCODED_NULL,  # available
            performatives.encode_boolean(drain),
        ]

    def take_transfer(
        self,
        delivery_id: int,
        tag: bytes | None,
        tail: TransferTail,
        buf: bytes,
        start: int,
        end: int,
        events: list[Event],
    ) -> None:
        """One frame of a message, usually the whole; its payload is buf[start:end]."""
        if self._assembly is None:
            if delivery_id < 0 or tag is None or len(tag) > DELIVERY_TAG_BYTES_MAX:
                raise LinkError(
                    self,
                    conditions.INVALID_FIELD,
                    "A message must begin with a delivery-id and a delivery-tag of up to 32 bytes.",
                )
            self._count_transfer()
            if tail.whole:
                if end - start > self.max_message_size:
                    self._refuse_oversize(delivery_id, tail.settled, tail.state, events)
                    return
                message_format = tail.message_format if tail.message_format >= 0 else 0
                events.append(
                    TransferReceived(
                        self,
                        delivery_id,
                        tag,
                        message_format,
                        tail.settled,
                        tail.state,
                        buf,
                        start,
                        end,
                    )
                )
                return
            connection = self.session.connection
            self._assembly = Assembly(delivery_id, tag, tail, connection.now_ms)
            connection.unfinished.begin(self, self._assembly)
        self._assemble(delivery_id, tag, tail, buf, start, end, events)

    def _count_transfer(self) -> None:
        self.delivery_count = (self.delivery_count + 1) & _MASK
        if self.credit > 0:
            self.credit -= 1
            return
        self.overdraft += 1
        if self.overdraft > TRANSFERS_WITHOUT_CREDIT_MAX:
            raise LinkError(
                self,
                conditions.LINK_TRANSFER_LIMIT_EXCEEDED,
                "Messages were sent without credit. Wait for a flow before sending.",
            )

    def _assemble(
        self,
        delivery_id: int,
        tag: bytes | None,
        tail: TransferTail,
        buf: bytes,
        start: int,
        end: int,
        events: list[Event],
    ) -> None:
        assembly = self._assembly
        assert assembly is not None
        if not assembly.belongs(delivery_id, tag, tail):
            raise SessionError(
                conditions.INVALID_FIELD,
                "A transfer continues a message under another delivery-id, tag or format.",
            )
        if tail.aborted:
            self._drop_assembly()
            return
        connection = self.session.connection
        connection.unfinished.add(self, buf, start, end, tail, connection.now_ms)
        if tail.more:
            return
        self._drop_assembly()
        number, state = assembly.delivery_id, assembly.state
        if assembly.size > self.max_message_size:
            self._refuse_oversize(number, assembly.settled, state, events)
            return
        if assembly.is_turned_away:
            error = AmqpError(connection.settings.busy_condition, NO_MEMORY)
            self._refuse(number, assembly.settled, state, error, events)
            return
        events.append(
            TransferReceived(
                self,
                number,
                assembly.tag,
                assembly.message_format,
                assembly.settled,
                state,
                assembly.first,
                assembly.first_start,
                assembly.first_end,
                assembly.rest,
            )
        )

    def _drop_assembly(self) -> None:
        if self._assembly is not None:
            self.session.connection.unfinished.forget(self)
            self._assembly = None

    def _refuse_oversize(
        self, delivery_id: int, settled: bool, state: DeliveryState | None, events: list[Event]
    ) -> None:
        error = self.oversize_error or AmqpError(
            conditions.LINK_MESSAGE_SIZE_EXCEEDED,
            f"The message is larger than the link's maximum of {self.max_message_size} bytes.",
        )
        self._refuse(delivery_id, settled, state, error, events)

    def _refuse(
        self,
        delivery_id: int,
        settled: bool,
        state: DeliveryState | None,
        error: AmqpError,
        events: list[Event],
    ) -> None:
        """Reject a message that could not be accepted and return its credit.

        The link stays open: the stock clients get the reason from the outcome, not from a detach.
        Only a message sent settled has no outcome; then the link is detached.
        """
        if state is not None:
            events.append(TransferRefused(self, state))
        if settled:
            raise LinkError(self, error.condition, error.description)
        self.settle(delivery_id, rejected(error))
        self.set_credit(self.credit + 1, self.drain)
