"""The sending side of a session: delivery-ids, the peer's window, what is unsettled [2.5.6].

Owns the transfer-ids and delivery-ids of what we send, the deliveries that wait for the
peer's window, and those that wait for settlement. Must never look at credit: links do.
Its `send` is hot: one frame per message, its head built from parts made beforehand.
"""

from collections import deque
from typing import TYPE_CHECKING, Final

from partibus.amqp import transfer
from partibus.amqp.delivery import Delivery
from partibus.amqp.serial import distance
from partibus.amqp.settings import RHEA_WINDOW, UNSETTLED_PER_SESSION_MAX

if TYPE_CHECKING:
    from partibus.amqp.connection import Connection
    from partibus.amqp.link import Link

_MASK: Final = 0xFFFFFFFF

# As the cloud service: the first transfer-id, and the first delivery-id, is 1.
FIRST_ID: Final = 1

# Of a transfer, the bytes of the size and of what is between prefix and suffix: the delivery-id,
# and constructor and length of the tag.
_TRANSFER_FIXED: Final = 4 + 4 + 2
_TAG_HEADS: Final = tuple([bytes((0xA0, size)) for size in range(33)])


class QueuedDelivery:
    """A delivery that waits for the peer's window, complete or from `offset` on.

    `state` is an encoded delivery state for its transfers, or empty.
    """

    __slots__ = ("delivery", "offset", "payload", "state")

    def __init__(self, delivery: Delivery, payload: bytes, state: bytes = b"") -> None:
        self.delivery = delivery
        self.payload = payload
        self.state = state
        self.offset = 0

    def prefix(self) -> bytes:
        """What comes before the delivery-id in each of its frames."""
        delivery, link = self.delivery, self.delivery.link
        tag_bytes, message_format = len(delivery.tag), delivery.message_format
        if not self.state:
            return link.transfer_prefix(tag_bytes, message_format)
        channel, state_bytes = link.session.channel, len(self.state)
        return transfer.transfer_prefix(
            channel, link.handle, tag_bytes, message_format, state_bytes
        )

    def suffix(self, more: bool) -> bytes:
        """What comes after the delivery-tag."""
        delivery = self.delivery
        if not self.state:
            return transfer.transfer_suffix(delivery.message_format, delivery.settled, more)
        return transfer.stateful_suffix(delivery.message_format, more, self.state)


class Outgoing:
    """What one session sends. `starved`: a link may send less than its credit, and must be notified
    when there is room."""

    __slots__ = (
        "_connection",
        "_out",
        "_queue",
        "_unsettled_max",
        "next_delivery_id",
        "next_outgoing_id",
        "starved",
        "unsettled",
        "window",
    )

    def __init__(self, connection: "Connection") -> None:
        self._connection = connection
        self._out = connection.out
        self.next_outgoing_id = FIRST_ID
        self.next_delivery_id = FIRST_ID
        # How many transfers the peer accepts from now on.
        self.window = 0
        self.unsettled: dict[int, Delivery] = {}
        self._unsettled_max = UNSETTLED_PER_SESSION_MAX
        self._queue: deque[QueuedDelivery] = deque()
        self.starved = False

    def begin(self, incoming_window: int) -> None:
        """The peer's initial window."""
        self.window = incoming_window
        if incoming_window == RHEA_WINDOW:
            self._unsettled_max = RHEA_WINDOW - 1

    def take_window(self, next_incoming_id: int, incoming_window: int) -> None:
        """The peer's later windows: transfers in flight count against them [2.5.6]."""
        seen = next_incoming_id if next_incoming_id >= 0 else FIRST_ID
        self.window = max(0, incoming_window - distance(seen, self.next_outgoing_id))
        if self._queue:
            self._send_queue()

    def room(self) -> int:
        """How many single-frame messages the peer accepts now, on any link.

        Deliveries wait in the queue only while the window is closed.
        """
        left = self._unsettled_max - len(self.unsettled)
        if self.window < left:
            return self.window
        return left if left > 0 else 0

    def send(self, delivery: Delivery, payload: bytes) -> None:
        link = delivery.link
        tag = delivery.tag
        message_format = delivery.message_format
        prefix = link.prefix
        if message_format != 0 or len(tag) != link.prefix_tag_bytes:
            prefix = link.transfer_prefix(len(tag), message_format)
        if message_format == 0:
            suffix = transfer.PLAIN_SETTLED if delivery.settled else transfer.PLAIN_UNSETTLED
        else:
            suffix = transfer.transfer_suffix(message_format, delivery.settled, False)
        size = len(prefix) + len(tag) + len(suffix) + len(payload) + _TRANSFER_FIXED
        if self.window <= 0 or size > self._connection.frame_size_out:
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
        self.window -= 1
        self._out.append(
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
        self._out.append(payload)

    def send_with_state(self, delivery: Delivery, payload: bytes, state: bytes) -> None:
        """Send a delivery whose transfers carry a state; rare, and so always through the queue."""
        self._queue.append(QueuedDelivery(delivery, payload, state))
        delivery.link.queued += 1
        self._send_queue()

    def _send_queue(self) -> None:
        queue = self._queue
        while queue and self.window > 0:
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
        prefix = item.prefix()
        suffix = item.suffix(False)
        overhead = len(prefix) + len(tag) + len(suffix) + _TRANSFER_FIXED
        stop = item.offset + self._connection.frame_size_out - overhead
        last = stop >= len(item.payload)
        if not last:
            suffix = item.suffix(True)
        piece = item.payload[item.offset : stop]
        head = prefix + delivery.delivery_id.to_bytes(4, "big") + _TAG_HEADS[len(tag)] + tag
        self._out.append((overhead + len(piece)).to_bytes(4, "big") + head + suffix)
        self._out.append(piece)
        item.offset = stop
        self.next_outgoing_id = (self.next_outgoing_id + 1) & _MASK
        self.window -= 1
        return last

    def settled_range(self, first: int, span: int, settled: bool) -> list[Delivery]:
        """Our unsettled deliveries from `first` on, at most `span` ids further; forgotten when
        `settled`. Costs the smaller of the range and the unsettled deliveries."""
        unsettled = self.unsettled
        if span == 0:
            delivery = unsettled.pop(first, None) if settled else unsettled.get(first)
            return [] if delivery is None else [delivery]
        if span < len(unsettled):
            ids = [n for n in ((first + i) & _MASK for i in range(span + 1)) if n in unsettled]
        else:
            ids = [n for n in unsettled if (n - first) & _MASK <= span]
        if settled:
            return [unsettled.pop(n) for n in ids]
        return [unsettled[n] for n in ids]

    def forget_link(self, link: "Link") -> None:
        """The link has ended: none of its deliveries is unsettled or waits any more; returns
        them."""
        gone = [n for n, delivery in self.unsettled.items() if delivery.link is link]
        for delivery_id in gone:
            link.left_unsettled.append(self.unsettled.pop(delivery_id))
        if link.queued:
            self._queue = deque([item for item in self._queue if item.delivery.link is not link])
            link.queued = 0
            self._send_queue()

    def abandon(self) -> None:
        """The session has ended."""
        self._queue.clear()
        for delivery in self.unsettled.values():
            delivery.link.left_unsettled.append(delivery)
        self.unsettled.clear()
