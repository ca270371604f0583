"""Sessions: windows, delivery-ids, handles, and what is unsettled [2.5].

Owns the transfer-ids and windows of both directions, the deliveries that we sent and that
are not settled, those that wait for the peer's window, and the table of handles. Must
never judge a link or a message. The connection routes frames here by channel.
"""

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from partibus.amqp import conditions
from partibus.amqp.delivery import Delivery
from partibus.amqp.disposition import (
    ROLE_RECEIVER,
    ROLE_SENDER,
    PendingDispositions,
    decode_disposition,
)
from partibus.amqp.errors import AmqpError, LinkError, ProtocolError, SessionError
from partibus.amqp.events import (
    AttachConfirmed,
    AttachReceived,
    DetachReceived,
    DispositionReceived,
    Event,
    FlowReceived,
    IncomingSettled,
    LinkFailed,
)
from partibus.amqp.framing import encode_frame
from partibus.amqp.link import Link
from partibus.amqp.performatives import (
    AttachFrame,
    BeginFrame,
    DetachFrame,
    FlowFrame,
    encode_begin,
    encode_end,
    encode_flow,
)
from partibus.amqp.settings import (
    LINKS_PER_CONNECTION_MAX,
    RHEA_WINDOW,
    UNSETTLED_PER_SESSION_MAX,
)
from partibus.amqp.transfer import (
    PLAIN_SETTLED,
    PLAIN_UNSETTLED,
    decode_transfer,
    transfer_suffix,
)

if TYPE_CHECKING:
    from partibus.amqp.connection import Connection

_MASK: Final = 0xFFFFFFFF

# As the cloud service: the first transfer-id, and the first delivery-id, is 1.
_FIRST_ID: Final = 1

# Of a transfer, the bytes of the size and of the two numbers between prefix and suffix:
# size, delivery-id, and constructor and length of the tag.
_TRANSFER_FIXED: Final = 4 + 4 + 2
_TAG_HEADS: Final = tuple([bytes((0xA0, size)) for size in range(33)])


class QueuedDelivery:
    """A delivery that waits for the peer's window, whole or from `offset` on."""

    __slots__ = ("delivery", "offset", "payload")

    def __init__(self, delivery: Delivery, payload: bytes) -> None:
        self.delivery = delivery
        self.payload = payload
        self.offset = 0


class Session:
    """One session. `channel` is ours; the peer's frames come on `remote_channel`."""

    __slots__ = (
        "_incoming_window",
        "_queue",
        "_remote_handles",
        "_replenish_at",
        "_unsettled_max",
        "active",
        "channel",
        "connection",
        "context",
        "dirty",
        "end_received",
        "end_sent",
        "failed",
        "incoming_left",
        "links",
        "next_delivery_id",
        "next_incoming_id",
        "next_outgoing_id",
        "out",
        "receiver_settled",
        "receiver_unsettled",
        "remote_channel",
        "remote_handle_max",
        "remote_incoming_window",
        "sender_settled",
        "starved",
        "unsettled",
    )

    def __init__(self, connection: "Connection", channel: int) -> None:
        self.connection = connection
        self.channel = channel
        self.remote_channel = -1
        self.context: object = None
        self.out = connection.out
        # Usable: begun by us and ended by neither side.
        self.active = True
        self.end_sent = False
        self.end_received = False
        self.failed = False
        self.links: dict[int, Link] = {}
        self._remote_handles: dict[int, Link] = {}
        self.remote_handle_max = _MASK
        self.next_incoming_id = -1
        self._incoming_window = connection.settings.incoming_window
        self.incoming_left = self._incoming_window
        self._replenish_at = self._incoming_window // 2
        self.next_outgoing_id = _FIRST_ID
        self.next_delivery_id = _FIRST_ID
        self.remote_incoming_window = 0
        self.unsettled: dict[int, Delivery] = {}
        self._unsettled_max = UNSETTLED_PER_SESSION_MAX
        self._queue: deque[QueuedDelivery] = deque()
        # A link was told that it may send less than its credit.
        self.starved = False
        self.dirty = False
        self.receiver_settled = PendingDispositions(ROLE_RECEIVER, True)
        self.receiver_unsettled = PendingDispositions(ROLE_RECEIVER, False)
        self.sender_settled = PendingDispositions(ROLE_SENDER, True)

    def __repr__(self) -> str:
        return f"Session({self.channel})"

    # --- begin and end ------------------------------------------------------------------------

    def write_begin(self, remote_channel: int | None) -> None:
        self.write(encode_begin(self.connection.settings, remote_channel, self.next_outgoing_id))

    def take_begin(self, channel: int, frame: BeginFrame) -> None:
        self.remote_channel = channel
        self.next_incoming_id = frame.next_outgoing_id
        self.remote_incoming_window = frame.incoming_window
        self.remote_handle_max = frame.handle_max
        if frame.incoming_window == RHEA_WINDOW:
            self._unsettled_max = RHEA_WINDOW - 1

    def end(self, error: AmqpError | None = None) -> None:
        """End the session and all its links; calls after the first do nothing."""
        if self.end_sent or self.connection.closing:
            return
        self.flush_dispositions()
        self.write(encode_end(error))
        self.end_sent = True
        self.abandon()

    def abandon(self) -> None:
        """Nothing more will come of this session or its links."""
        self.active = False
        for link in list(self.links.values()):
            link.attached = False
            link.forget()
            self.release(link)
        self._queue.clear()
        self.unsettled.clear()
        self.receiver_settled.clear()
        self.receiver_unsettled.clear()
        self.sender_settled.clear()

    # --- writing ------------------------------------------------------------------------------

    def write(self, body: bytes) -> None:
        self.connection.write_frame(encode_frame(self.channel, body))

    def write_flow(self, link_fields: list[bytes], echo: bool) -> None:
        """Any flow tells the session's state, so each opens our window anew."""
        if not self.active:
            return
        self.incoming_left = self._incoming_window
        self.write(
            encode_flow(
                self.next_incoming_id,
                self._incoming_window,
                self.next_outgoing_id,
                self.connection.settings.outgoing_window,
                link_fields,
                echo,
            )
        )

    def mark_dirty(self) -> None:
        """Dispositions wait to be written."""
        if not self.dirty:
            self.dirty = True
            self.connection.dirty_sessions.append(self)

    def flush_dispositions(self) -> None:
        if self.dirty:
            self.dirty = False
            self.sender_settled.flush(self.channel, self.out)
            self.receiver_settled.flush(self.channel, self.out)
            self.receiver_unsettled.flush(self.channel, self.out)

    # --- links --------------------------------------------------------------------------------

    def attach(
        self,
        name: str,
        *,
        is_sender: bool,
        source: bytes,
        target: bytes,
        snd_settle_mode: int | None = None,
        rcv_settle_mode: int | None = None,
        properties: Mapping[str, object] | None = None,
    ) -> Link:
        """Open a link from our side; AttachConfirmed follows."""
        link = Link(self, name, self._free_handle(0), is_sender)
        link.snd_settle_mode = snd_settle_mode
        link.rcv_settle_mode = rcv_settle_mode
        self.links[link.handle] = link
        self.connection.link_names[(name, is_sender)] = link
        link.write_attach(source, target, properties or {})
        return link

    def take_attach(self, frame: AttachFrame, events: list[Event]) -> None:
        if frame.handle > self.connection.settings.handle_max:
            raise ProtocolError(
                conditions.CONNECTION_FRAMING_ERROR, "A handle is above the handle-max."
            )
        if frame.handle in self._remote_handles:
            raise SessionError(conditions.SESSION_HANDLE_IN_USE, "The handle is in use.")
        is_sender = frame.is_receiver
        link = self.connection.link_names.get((frame.name, is_sender))
        if link is not None and link.session is self and link.remote_handle < 0:
            self._remote_handles[frame.handle] = link
            link.take_attach(frame)
            if not link.detach_sent:
                events.append(AttachConfirmed(link))
            return
        if link is not None:
            # The newer attach wins [2.6.1].
            link.session.fail_link(
                link, AmqpError(conditions.LINK_STOLEN, "The link was attached anew."), events
            )
        link = Link(self, frame.name, self._free_handle(frame.handle), is_sender)
        link.take_attach(frame)
        self.links[link.handle] = link
        self._remote_handles[frame.handle] = link
        self.connection.link_names[(frame.name, is_sender)] = link
        if len(self.connection.link_names) > LINKS_PER_CONNECTION_MAX:
            link.failed = True
            link.refuse(AmqpError(conditions.RESOURCE_LIMIT_EXCEEDED, "Too many links."))
            return
        events.append(AttachReceived(link))

    def _free_handle(self, wanted: int) -> int:
        """The peer's number when we may use it too, which reads well in a trace."""
        if wanted not in self.links and wanted <= self.remote_handle_max:
            return wanted
        handle = 0
        while handle in self.links:
            handle += 1
        if handle > self.remote_handle_max:
            raise SessionError(conditions.RESOURCE_LIMIT_EXCEEDED, "The handles are used up.")
        return handle

    def take_detach(self, frame: DetachFrame, events: list[Event]) -> None:
        link = self._remote_handles.pop(frame.handle, None)
        if link is None:
            raise SessionError(
                conditions.SESSION_UNATTACHED_HANDLE, f"No link has the handle {frame.handle}."
            )
        link.detach_received = True
        link.attached = False
        link.detach(None, frame.closed)
        self.release(link)
        if not link.failed:
            events.append(DetachReceived(link, frame.closed, frame.error))

    def release(self, link: Link) -> None:
        """Free the link's name once it has ended on one side, its handle when on both.

        A link of ours that the peer has not answered keeps its name: the answer will come.
        """
        if link.remote_handle < 0 and self.active:
            return
        key = (link.name, link.is_sender)
        if self.connection.link_names.get(key) is link:
            del self.connection.link_names[key]
        if link.detach_sent and link.detach_received and self.links.get(link.handle) is link:
            del self.links[link.handle]

    def fail_link(self, link: Link, error: AmqpError, events: list[Event]) -> None:
        if not link.detach_sent and not link.failed:
            link.failed = True
            link.detach(error)
            events.append(LinkFailed(link, error))

    def _link(self, handle: int) -> Link:
        link = self._remote_handles.get(handle)
        if link is None:
            raise SessionError(
                conditions.SESSION_UNATTACHED_HANDLE, f"No link has the handle {handle}."
            )
        return link

    # --- incoming messages --------------------------------------------------------------------

    def take_transfer(self, buf: bytes, at: int, end: int, events: list[Event]) -> None:
        handle, delivery_id, tag, tail, payload_at = decode_transfer(
            buf, at, end, self.connection.transfer_tails
        )
        self.next_incoming_id = (self.next_incoming_id + 1) & _MASK
        self.incoming_left -= 1
        if self.incoming_left <= self._replenish_at:
            self.write_flow([], False)
        link = self._remote_handles.get(handle)
        if link is None:
            raise SessionError(
                conditions.SESSION_UNATTACHED_HANDLE, f"No link has the handle {handle}."
            )
        if link.detach_sent:
            return
        if link.is_sender:
            raise LinkError(link, conditions.NOT_ALLOWED, "A transfer came from a receiver.")
        link.take_transfer(delivery_id, tag, tail, buf[payload_at:end], events)

    # --- outgoing messages --------------------------------------------------------------------

    def room(self) -> int:
        """How many messages of one frame the peer takes now, on whatever link."""
        if self._queue:
            return 0
        left = self._unsettled_max - len(self.unsettled)
        if self.remote_incoming_window < left:
            return self.remote_incoming_window
        return left if left > 0 else 0

    def send(self, delivery: Delivery, payload: bytes) -> None:
        link = delivery.link
        tag = delivery.tag
        message_format = delivery.message_format
        prefix = link.prefix
        if message_format != 0 or len(tag) != link.prefix_tag_bytes:
            prefix = link.transfer_prefix(len(tag), message_format)
        if message_format == 0:
            suffix = PLAIN_SETTLED if delivery.settled else PLAIN_UNSETTLED
        else:
            suffix = transfer_suffix(message_format, delivery.settled, False)
        size = len(prefix) + len(tag) + len(suffix) + len(payload) + _TRANSFER_FIXED
        if self._queue or self.remote_incoming_window <= 0 or size > self.connection.frame_size_out:
            self._queue.append(QueuedDelivery(delivery, payload))
            link.queued += 1
            self._send_queue()
            return
        delivery_id = self.next_delivery_id
        self.next_delivery_id = (delivery_id + 1) & _MASK
        delivery.delivery_id = delivery_id
        if not delivery.settled:
            self.unsettled[delivery_id] = delivery
        self.next_outgoing_id = (self.next_outgoing_id + 1) & _MASK
        self.remote_incoming_window -= 1
        self.out.append(
            b"".join(
                (
                    size.to_bytes(4, "big"),
                    prefix,
                    delivery_id.to_bytes(4, "big"),
                    _TAG_HEADS[len(tag)],
                    tag,
                    suffix,
                )
            )
        )
        self.out.append(payload)

    def _send_queue(self) -> None:
        queue = self._queue
        while queue and self.remote_incoming_window > 0:
            item = queue[0]
            delivery = item.delivery
            if delivery.delivery_id < 0:
                delivery.delivery_id = self.next_delivery_id
                self.next_delivery_id = (self.next_delivery_id + 1) & _MASK
                if not delivery.settled:
                    self.unsettled[delivery.delivery_id] = delivery
            if self._send_piece(item):
                queue.popleft()
                delivery.link.left_queue()

    def _send_piece(self, item: QueuedDelivery) -> bool:
        """Write the next frame of a queued delivery; true when it was the last."""
        delivery = item.delivery
        tag = delivery.tag
        prefix = delivery.link.transfer_prefix(len(tag), delivery.message_format)
        suffix = transfer_suffix(delivery.message_format, delivery.settled, False)
        overhead = len(prefix) + len(tag) + len(suffix) + _TRANSFER_FIXED
        stop = item.offset + self.connection.frame_size_out - overhead
        last = stop >= len(item.payload)
        if not last:
            suffix = transfer_suffix(delivery.message_format, delivery.settled, True)
        piece = item.payload[item.offset : stop]
        head = prefix + delivery.delivery_id.to_bytes(4, "big") + _TAG_HEADS[len(tag)] + tag
        self.out.append((overhead + len(piece)).to_bytes(4, "big") + head + suffix)
        self.out.append(piece)
        item.offset = stop
        self.next_outgoing_id = (self.next_outgoing_id + 1) & _MASK
        self.remote_incoming_window -= 1
        return last

    def forget_deliveries(self, link: Link) -> None:
        """The link has ended: nothing of it is unsettled or waits any more."""
        if link.queued:
            self._queue = deque([item for item in self._queue if item.delivery.link is not link])
            link.queued = 0
        if self.active:
            gone = [n for n, delivery in self.unsettled.items() if delivery.link is link]
            for delivery_id in gone:
                del self.unsettled[delivery_id]
            self._send_queue()

    # --- flow and dispositions ----------------------------------------------------------------

    def take_flow(self, frame: FlowFrame, events: list[Event]) -> None:
        seen = frame.next_incoming_id if frame.next_incoming_id >= 0 else _FIRST_ID
        in_flight = (self.next_outgoing_id - seen) & _MASK
        window = frame.incoming_window - in_flight if in_flight < 0x80000000 else 0
        self.remote_incoming_window = max(0, window)
        if self._queue:
            self._send_queue()
        link: Link | None = None
        if frame.handle >= 0:
            link = self._link(frame.handle)
            if not link.detach_sent and link.take_flow(frame):
                events.append(FlowReceived(link))
        if frame.echo:
            fields = link.flow_fields(link.drain) if link is not None and link.attach_sent else []
            self.write_flow(fields, False)
        if self.starved:
            self._wake(events, link)

    def wakeable(self) -> list[Link]:
        """Links that were held back by the session and may send again, if there is room.

        The engine reports them as FlowReceived when the peer makes room; an owner that
        makes room by `Link.settle_sent` asks here.
        """
        if not self.starved or self.room() <= 0:
            return []
        self.starved = False
        return [link for link in self.links.values() if link.is_sender and link.credit > 0]

    def _wake(self, events: list[Event], told: Link | None) -> None:
        events.extend([FlowReceived(link) for link in self.wakeable() if link is not told])

    def take_disposition(self, buf: bytes, at: int, end: int, events: list[Event]) -> None:
        role, first, last, tail = decode_disposition(
            buf, at, end, self.connection.disposition_tails
        )
        span = (last - first) & _MASK
        if role == ROLE_SENDER:
            if tail.settled and span < 0x80000000:
                events.append(IncomingSettled(self, first, last, tail.state))
            return
        unsettled = self.unsettled
        if span == 0:
            delivery = unsettled.pop(first, None) if tail.settled else unsettled.get(first)
            deliveries = [] if delivery is None else [delivery]
        else:
            deliveries = self._in_range(first, span, tail.settled)
        if not deliveries:
            return
        if tail.settled:
            for delivery in deliveries:
                delivery.settled = True
        events.append(DispositionReceived(deliveries, tail.settled, tail.state))
        if self.starved and tail.settled:
            self._wake(events, None)

    def _in_range(self, first: int, span: int, settled: bool) -> list[Delivery]:
        """Our unsettled deliveries of a range, at the cost of the smaller of the two."""
        unsettled = self.unsettled
        if span < len(unsettled):
            ids = [n for n in ((first + i) & _MASK for i in range(span + 1)) if n in unsettled]
        else:
            ids = [n for n in unsettled if (n - first) & _MASK <= span]
        if settled:
            return [unsettled.pop(n) for n in ids]
        return [unsettled[n] for n in ids]
