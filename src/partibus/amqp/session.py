"""Sessions: the table of handles, our window, flow and dispositions [2.5].

Owns the links of a session by both sides' handles, the window that we offer, and the
dispositions that wait to be written; what we send is in `Outgoing`. Must never judge a
link or a message. The connection routes frames here by channel.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from partibus.amqp import conditions, disposition, performatives
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
from partibus.amqp.outgoing import Outgoing
from partibus.amqp.settings import LINKS_PER_CONNECTION_MAX
from partibus.amqp.transfer import decode_transfer

if TYPE_CHECKING:
    from partibus.amqp.connection import Connection

_MASK: Final = 0xFFFFFFFF


class Session:
    """One session. `channel` is ours; the peer's frames come on `remote_channel`."""

    __slots__ = (
        "_remote_handles",
        "_replenish_at",
        "active",
        "channel",
        "connection",
        "context",
        "dirty",
        "end_sent",
        "failed",
        "incoming_left",
        "links",
        "next_incoming_id",
        "out",
        "outgoing",
        "receiver_settled",
        "receiver_unsettled",
        "remote_channel",
        "remote_handle_max",
        "sender_settled",
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
        self.failed = False
        self.links: dict[int, Link] = {}
        self._remote_handles: dict[int, Link] = {}
        self.remote_handle_max = _MASK
        self.next_incoming_id = -1
        self.incoming_left = connection.settings.incoming_window
        self._replenish_at = self.incoming_left // 2
        self.outgoing = Outgoing(connection)
        self.dirty = False
        self.receiver_settled = disposition.PendingDispositions(disposition.ROLE_RECEIVER, True)
        self.receiver_unsettled = disposition.PendingDispositions(disposition.ROLE_RECEIVER, False)
        self.sender_settled = disposition.PendingDispositions(disposition.ROLE_SENDER, True)

    def __repr__(self) -> str:
        return f"Session({self.channel})"

    # --- begin and end ------------------------------------------------------------------------

    def write_begin(self, remote_channel: int | None) -> None:
        self.write(
            performatives.encode_begin(
                self.connection.settings, remote_channel, self.outgoing.next_outgoing_id
            )
        )

    def take_begin(self, channel: int, frame: performatives.BeginFrame) -> None:
        self.remote_channel = channel
        self.next_incoming_id = frame.next_outgoing_id
        self.remote_handle_max = frame.handle_max
        self.outgoing.begin(frame.incoming_window)

    def end(self, error: AmqpError | None = None) -> None:
        """End the session and all its links; calls after the first do nothing."""
        if self.end_sent or self.connection.closing:
            return
        self.flush_dispositions()
        self.write(performatives.encode_end(error))
        self.end_sent = True
        self.abandon()

    def abandon(self) -> None:
        """The session and its links have ended."""
        self.active = False
        self.outgoing.abandon()
        for link in list(self.links.values()):
            link.attached = False
            link.forget()
            self.release(link)
        self.receiver_settled.clear()
        self.receiver_unsettled.clear()
        self.sender_settled.clear()

    # --- writing ------------------------------------------------------------------------------

    def write(self, body: bytes) -> None:
        self.connection.write_frame(encode_frame(self.channel, body))

    def write_flow(self, link_fields: list[bytes]) -> None:
        """Any flow contains the session's state, so each renews our window."""
        if not self.active:
            return
        window = self.connection.incoming_window
        self.incoming_left = window
        self._replenish_at = window // 2
        self.write(
            performatives.encode_flow(
                self.next_incoming_id,
                window,
                self.outgoing.next_outgoing_id,
                self.connection.settings.outgoing_window,
                link_fields,
                False,
            )
        )

    def mark_dirty(self) -> None:
        """Dispositions are waiting to be written."""
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
        link.write_attach(source, target, properties)
        return link

    def take_attach(self, frame: performatives.AttachFrame, events: list[Event]) -> None:
        if frame.handle > self.connection.settings.handle_max:
            raise ProtocolError(
                conditions.CONNECTION_FRAMING_ERROR, "The handle is above handle-max."
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
                link, AmqpError(conditions.LINK_STOLEN, "The link was attached again."), events
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
        """The peer's number if it is free, which makes traces readable."""
        if wanted not in self.links and wanted <= self.remote_handle_max:
            return wanted
        handle = 0
        while handle in self.links:
            handle += 1
        if handle > self.remote_handle_max:
            raise SessionError(conditions.RESOURCE_LIMIT_EXCEEDED, "All handles are in use.")
        return handle

    def take_detach(self, frame: performatives.DetachFrame, events: list[Event]) -> None:
        link = self._remote_handles.pop(frame.handle, None)
        if link is None:
            raise SessionError(
                conditions.SESSION_UNATTACHED_HANDLE, f"No link has the handle {frame.handle}."
            )
        link.detach_received = True
        link.peer_closed = frame.closed
        link.attached = False
        if link.answers_detach:
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
            self.write_flow([])
        link = self._remote_handles.get(handle)
        if link is None:
            raise SessionError(
                conditions.SESSION_UNATTACHED_HANDLE, f"No link has the handle {handle}."
            )
        if link.detach_sent:
            return
        if link.is_sender:
            raise LinkError(link, conditions.NOT_ALLOWED, "A receiver cannot send a transfer.")
        link.take_transfer(delivery_id, tag, tail, buf, payload_at, end, events)

    # --- flow and dispositions ----------------------------------------------------------------

    def take_flow(self, frame: performatives.FlowFrame, events: list[Event]) -> None:
        self.outgoing.take_window(frame.next_incoming_id, frame.incoming_window)
        link: Link | None = None
        if frame.handle >= 0:
            link = self._link(frame.handle)
            if not link.detach_sent and link.take_flow(frame):
                events.append(FlowReceived(link))
        if frame.echo:
            fields = link.flow_fields(link.drain) if link is not None and link.attach_sent else []
            self.write_flow(fields)
        if self.outgoing.starved:
            self._wake(events, link)

    def wakeable(self) -> list[Link]:
        """Links that the session held back and that may send again, if there is room.

        The engine reports them as FlowReceived when the peer makes room; an owner that makes room
        by `Link.settle_sent` calls this.
        """
        if not self.outgoing.starved or self.outgoing.room() <= 0:
            return []
        self.outgoing.starved = False
        return [link for link in self.links.values() if link.is_sender and link.credit > 0]

    def _wake(self, events: list[Event], reported: Link | None) -> None:
        events.extend([FlowReceived(link) for link in self.wakeable() if link is not reported])

    def take_disposition(self, buf: bytes, at: int, end: int, events: list[Event]) -> None:
        role, first, last, tail = disposition.decode_disposition(
            buf, at, end, self.connection.disposition_tails
        )
        span = (last - first) & _MASK
        if role == disposition.ROLE_SENDER:
            if tail.settled and span < 0x80000000:
                events.append(IncomingSettled(self, first, last, tail.state))
            return
        deliveries = self.outgoing.settled_range(first, span, tail.settled)
        if not deliveries:
            return
        if tail.settled:
            for delivery in deliveries:
                delivery.settled = True
        events.append(DispositionReceived(deliveries, tail.settled, tail.state))
        if self.outgoing.starved and tail.settled:
            self._wake(events, None)
