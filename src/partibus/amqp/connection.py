"""Connections: bytes in, events out; events' answers in, bytes out [2.4].

Owns open and close, the table of channels, the routing of frames to sessions, and what waits to be
written; `Handshake` comes before it. Must never do I/O, read a clock, or raise on anything a peer
sent: a violated rule becomes a close, end or detach, of the smallest sufficient scope, and an
event. Driven by the listener and by the client alike.
"""

from collections.abc import Mapping

from partibus.amqp import conditions, performatives, sasl
from partibus.amqp.codec.decode import DecodeError
from partibus.amqp.codec.fields import FieldReader
from partibus.amqp.disposition import DispositionTail
from partibus.amqp.errors import AmqpError, LinkError, ProtocolError, SessionError
from partibus.amqp.events import (
    BeginConfirmed,
    BeginReceived,
    CloseReceived,
    ConnectionFailed,
    EndReceived,
    Event,
    OpenReceived,
    SessionFailed,
)
from partibus.amqp.framing import (
    EMPTY_FRAME,
    FRAME_AMQP,
    FRAME_HEAD,
    FRAME_HEAD_BYTES,
    FRAME_SASL,
    HEADER_BYTES,
    NEVER,
    InputBuffer,
    decode_descriptor,
    encode_frame,
)
from partibus.amqp.handshake import STAGE_AMQP, STAGE_CLOSED, STAGE_SASL, STAGE_VERDICT, Handshake
from partibus.amqp.idle import IdleTimer
from partibus.amqp.link import Link
from partibus.amqp.session import Session
from partibus.amqp.settings import (
    ATTACH_BYTES_MAX,
    FRAME_SIZE_MIN,
    FRAME_SIZE_OUT_MAX,
    SASL_FRAME_SIZE_MAX,
    ConnectionSettings,
)
from partibus.amqp.transfer import TransferTail
from partibus.amqp.unfinished import Unfinished


class Connection:
    """One AMQP connection, as seen from either side."""

    __slots__ = (
        "_channels_in",
        "_frame_size_max",
        "_handshake",
        "_idle",
        "_input",
        "_opened",
        "closed",
        "closing",
        "dirty_sessions",
        "disposition_tails",
        "frame_size_out",
        "incoming_window",
        "link_names",
        "out",
        "remote_open",
        "sessions",
        "settings",
        "transfer_tails",
        "unfinished",
    )

    def __init__(
        self, settings: ConnectionSettings, *, initiator: bool = False, now_ms: int
    ) -> None:
        self.settings = settings
        self.remote_open: performatives.OpenFrame | None = None
        # Nothing will be read any more; the socket may be closed once the output is flushed.
        self.closed = False
        # We have sent our close.
        self.closing = False
        # Our channel -> session; ended sessions stay until the peer has ended them too.
        self.sessions: dict[int, Session] = {}
        self._channels_in: dict[int, Session] = {}
        # (name, are we its sender) -> link, of all sessions [2.6.1].
        self.link_names: dict[tuple[str, bool], Link] = {}
        self.unfinished = Unfinished()
        # What sessions offer the peer; the owner may change it.
        self.incoming_window = settings.incoming_window
        self.transfer_tails: dict[bytes, TransferTail] = {}
        self.disposition_tails: dict[bytes, DispositionTail] = {}
        self.dirty_sessions: list[Session] = []
        self.frame_size_out = FRAME_SIZE_MIN
        # Frames wait here until our open was written; headers and SASL do not.
        self.out: list[bytes] = []
        self._handshake = Handshake(settings, initiator)
        self._opened = False
        self._frame_size_max = settings.max_frame_size
        self._input = InputBuffer()
        self._idle = IdleTimer(settings.idle_timeout_ms, now_ms)

    # --- output -------------------------------------------------------------------------------

    @property
    def has_output(self) -> bool:
        if self._handshake.output:
            return True
        ready = self._opened and self._handshake.header_sent
        return ready and bool(self.out or self.dirty_sessions)

    def data_to_send(self) -> bytes:
        """Everything queued, as one piece; settlements are gathered into ranges here."""
        if self.dirty_sessions:
            for session in self.dirty_sessions:
                session.flush_dispositions()
            self.dirty_sessions.clear()
        data = b""
        handshake = self._handshake
        if handshake.output:
            data = b"".join(handshake.output)
            handshake.output.clear()
        if self._opened and handshake.header_sent and self.out:
            data += b"".join(self.out)
            self.out.clear()
        if data:
            self._idle.spoke()
        return data

    def write_frame(self, frame: bytes) -> None:
        """Queue a frame other than a transfer or disposition."""
        if self.closing:
            return
        if len(frame) > self.frame_size_out and self.remote_open is not None:
            text = f"A frame of {len(frame)} bytes exceeds the peer's max-frame-size."
            self.close(AmqpError(conditions.FRAME_SIZE_TOO_SMALL, text))
            return
        self.out.append(frame)

    # --- what the owner does ------------------------------------------------------------------

    def open(self, properties: Mapping[str, object] | None = None) -> None:
        """Send our open, before everything that was queued so far."""
        if self._opened or self.closing:
            return
        self._opened = True
        self.out.insert(0, encode_frame(0, performatives.encode_open(self.settings, properties)))
        self._handshake.start_amqp()

    def close(self, error: AmqpError | None = None) -> None:
        """Send our close; `closed` follows when the peer has answered."""
        if self.closing:
            return
        for session in self.dirty_sessions:
            session.flush_dispositions()
        self.dirty_sessions.clear()
        self.open()
        self.out.append(encode_frame(0, performatives.encode_close(error)))
        self._shut()

    def begin(self) -> Session:
        """Begin a session; BeginConfirmed follows, and links may be attached at once."""
        session = Session(self, self._free_channel(0))
        self.sessions[session.channel] = session
        session.write_begin(None)
        return session

    def sasl_plain(self, user: str, password: str) -> None:
        self._handshake.start_sasl("PLAIN", sasl.plain_response(user, password))

    def sasl_anonymous(self) -> None:
        self._handshake.start_sasl("ANONYMOUS", b"")

    def sasl_outcome(self, ok: bool) -> list[Event]:
        """Answer the peer's init; returns what the peer had already sent after it."""
        events: list[Event] = []
        if self._handshake.stage != STAGE_VERDICT:
            return events
        self._handshake.judge(ok)
        waiting = self._input.take()
        if not ok:
            self._stop()
        elif waiting:
            self._parse(waiting, 0, events)
        return events

    # --- time ---------------------------------------------------------------------------------

    def tick(self, now_ms: int) -> list[Event]:
        """Do what is due: send an empty frame to a waiting peer, or give up a silent one."""
        events: list[Event] = []
        if self.closed:
            return events
        idle = self._idle
        idle.now_ms = now_ms
        if idle.gave_up():
            silence_ms = now_ms - idle.heard_ms
            self._fail(
                AmqpError(
                    conditions.RESOURCE_LIMIT_EXCEEDED,
                    f"The connection was idle: nothing was received for {silence_ms} ms.",
                ),
                events,
            )
        elif idle.heartbeat_due() and self._opened:
            self.out.append(EMPTY_FRAME)
        for link, error in self.unfinished.stalled(now_ms, self.settings.stalled_condition):
            link.session.fail_link(link, error, events)
        return events

    def next_tick_ms(self) -> int | None:
        return None if self.closed else self.unfinished.sooner(self._idle.next_ms())

    @property
    def now_ms(self) -> int:
        """The time that was last passed in."""
        return self._idle.now_ms

    @property
    def unfinished_bytes(self) -> int:
        """The bytes of incomplete frames and messages."""
        return self.unfinished.bytes_held + self._input.have

    # --- input --------------------------------------------------------------------------------

    def receive_data(self, data: bytes, now_ms: int) -> list[Event]:
        """Handle bytes from the peer; returns the events."""
        events: list[Event] = []
        self._idle.heard(now_ms)
        if self.closed:
            return events
        at = self._complete(data, events) if self._input.need else 0
        if at < len(data) and not self.closed:
            self._parse(data, at, events)
        return events

    def _complete(self, data: bytes, events: list[Event]) -> int:
        """Complete a partial frame; returns the offset of what follows it."""
        waiting = self._input
        at = 0
        # Only the size of the frame may have been missing.
        while waiting.need and at < len(data):
            at = waiting.fill(data, at)
            if waiting.have >= waiting.need:
                self._parse(waiting.take(), 0, events)
        if self._handshake.stage == STAGE_VERDICT and waiting.have > self._frame_size_max:
            text = "Too much data was sent before the SASL outcome."
            self._fail(AmqpError(conditions.RESOURCE_LIMIT_EXCEEDED, text), events)
        return at

    def _parse(self, buf: bytes, at: int, events: list[Event]) -> None:
        handshake = self._handshake
        need = -1
        while need < 0:
            stage = handshake.stage
            if stage in (STAGE_AMQP, STAGE_SASL):
                at, need = self._parse_frames(buf, at, events)
            elif stage == STAGE_VERDICT:
                need = NEVER
            elif stage == STAGE_CLOSED:
                self._stop()
                return
            elif len(buf) - at >= HEADER_BYTES:
                handshake.take_header(buf[at : at + HEADER_BYTES], events)
                at += HEADER_BYTES
            else:
                need = HEADER_BYTES
        self._input.keep(buf, at, need)

    def _parse_frames(self, buf: bytes, at: int, events: list[Event]) -> tuple[int, int]:
        """Parse whole frames of one layer; returns the offset reached, and the bytes that the next
        frame needs, or -1 when the stage has changed."""
        handshake = self._handshake
        stage = handshake.stage
        kind_expected = FRAME_AMQP if stage == STAGE_AMQP else FRAME_SASL
        size_max = self._frame_size_max if stage == STAGE_AMQP else SASL_FRAME_SIZE_MAX
        end = len(buf)
        while end - at >= FRAME_HEAD_BYTES:
            size, doff, kind, channel = FRAME_HEAD.unpack_from(buf, at)
            body = at + 4 * doff
            stop = at + size
            if size > size_max or doff < 2 or body > stop or kind != kind_expected:
                self._fail(_bad_frame(size, size_max, doff, kind), events)
                return at, -1
            if stop > end:
                return at, size
            at = stop
            if body == stop:
                continue
            try:
                if kind == FRAME_AMQP:
                    self._take_frame(channel, buf, body, stop, events)
                else:
                    handshake.take_frame(buf, body, stop, events)
            except LinkError as misused:
                misused.link.session.fail_link(misused.link, misused.error, events)
            except SessionError as refused:
                self._fail_session(channel, refused.error, events)
            except ProtocolError as broken_rule:
                self._fail(broken_rule.error, events)
            except DecodeError as unreadable:
                self._fail(AmqpError(conditions.DECODE_ERROR, str(unreadable)), events)
            if handshake.stage != stage:
                return at, -1
        return at, FRAME_HEAD_BYTES

    def _take_frame(self, channel: int, buf: bytes, at: int, end: int, events: list[Event]) -> None:
        if end - at > 3 and buf[at] == 0 and buf[at + 1] == 0x53:
            code = buf[at + 2]
            at += 3
        else:
            code, at = decode_descriptor(buf, at, end)
        session = self._channels_in.get(channel)
        if session is not None and session.active:
            if code == performatives.TRANSFER:
                session.take_transfer(buf, at, end, events)
                return
            if code == performatives.DISPOSITION:
                session.take_disposition(buf, at, end, events)
                return
            if code == performatives.FLOW:
                session.take_flow(performatives.FlowFrame(FieldReader(buf, at, end)), events)
                return
        self._take_control(code, channel, session, buf, at, end, events)

    def _take_control(
        self,
        code: int,
        channel: int,
        session: Session | None,
        buf: bytes,
        at: int,
        end: int,
        events: list[Event],
    ) -> None:
        """Everything except messages: rare, and read field by field."""
        if code == performatives.CLOSE:
            self._take_close(performatives.decode_ending(FieldReader(buf, at, end)), events)
        elif self.closing:
            return
        elif code == performatives.OPEN:
            self._take_open(performatives.OpenFrame(FieldReader(buf, at, end)), events)
        elif self.remote_open is None or code < performatives.OPEN or code > performatives.CLOSE:
            raise ProtocolError(
                conditions.CONNECTION_FRAMING_ERROR, f"Frame 0x{code:x} is not allowed now."
            )
        elif code == performatives.BEGIN:
            self._take_begin(channel, performatives.BeginFrame(FieldReader(buf, at, end)), events)
        elif session is None:
            raise ProtocolError(
                conditions.CONNECTION_FRAMING_ERROR, f"No session was begun on channel {channel}."
            )
        elif code == performatives.END:
            self._take_end(session, performatives.decode_ending(FieldReader(buf, at, end)), events)
        elif not session.active:
            return
        elif code == performatives.ATTACH:
            if end - at > ATTACH_BYTES_MAX:
                raise SessionError(conditions.RESOURCE_LIMIT_EXCEEDED, "The attach is too large.")
            session.take_attach(performatives.AttachFrame(FieldReader(buf, at, end)), events)
        elif code == performatives.DETACH:
            session.take_detach(performatives.DetachFrame(FieldReader(buf, at, end)), events)

    # --- open, begin, end, close --------------------------------------------------------------

    def _take_open(self, frame: performatives.OpenFrame, events: list[Event]) -> None:
        if self.remote_open is not None:
            raise ProtocolError(conditions.ILLEGAL_STATE, "The connection is already open.")
        if frame.max_frame_size < FRAME_SIZE_MIN:
            raise ProtocolError(
                conditions.INVALID_FIELD, f"max-frame-size must be at least {FRAME_SIZE_MIN}."
            )
        self.remote_open = frame
        self.frame_size_out = min(frame.max_frame_size, FRAME_SIZE_OUT_MAX)
        self._idle.promise(frame.idle_timeout_ms)
        events.append(OpenReceived(frame))

    def _take_begin(
        self, channel: int, frame: performatives.BeginFrame, events: list[Event]
    ) -> None:
        if channel > self.settings.channel_max:
            raise ProtocolError(
                conditions.CONNECTION_FRAMING_ERROR, "The channel number is above channel-max."
            )
        if channel in self._channels_in:
            raise ProtocolError(conditions.NOT_ALLOWED, f"Channel {channel} is in use.")
        if frame.remote_channel is not None:
            session = self.sessions.get(frame.remote_channel)
            if session is None or session.remote_channel >= 0:
                raise ProtocolError(
                    conditions.NOT_ALLOWED, "A begin frame answers a session that was never begun."
                )
            session.take_begin(channel, frame)
            self._channels_in[channel] = session
            events.append(BeginConfirmed(session))
            return
        session = Session(self, self._free_channel(channel))
        session.take_begin(channel, frame)
        self.sessions[session.channel] = session
        self._channels_in[channel] = session
        session.write_begin(channel)
        events.append(BeginReceived(session))

    def _free_channel(self, wanted: int) -> int:
        remote_max = 0xFFFF if self.remote_open is None else self.remote_open.channel_max
        if wanted not in self.sessions and wanted <= remote_max:
            return wanted
        channel = 0
        while channel in self.sessions:
            channel += 1
        if channel > remote_max:
            raise ProtocolError(conditions.RESOURCE_LIMIT_EXCEEDED, "All channels are in use.")
        return channel

    def _take_end(self, session: Session, error: AmqpError | None, events: list[Event]) -> None:
        session.end(None)
        del self._channels_in[session.remote_channel]
        del self.sessions[session.channel]
        if not session.failed:
            events.append(EndReceived(session, error))

    def _fail_session(self, channel: int, error: AmqpError, events: list[Event]) -> None:
        session = self._channels_in[channel]
        session.failed = True
        session.end(error)
        events.append(SessionFailed(session, error))

    def _take_close(self, error: AmqpError | None, events: list[Event]) -> None:
        if self.remote_open is None:
            raise ProtocolError(conditions.CONNECTION_FRAMING_ERROR, "Close came before open.")
        self.close(None)
        self._stop()
        events.append(CloseReceived(error))

    def _fail(self, error: AmqpError, events: list[Event]) -> None:
        """Close because of a peer's error, without waiting for its close."""
        if self._handshake.stage == STAGE_AMQP:
            self.close(error)
        self._stop()
        events.append(ConnectionFailed(error))

    def _shut(self) -> None:
        """We have sent our close: no session or link is usable any more."""
        self.closing = True
        self._idle.end_promise()
        for session in self.sessions.values():
            session.abandon()

    def lost(self) -> list[bytes | memoryview]:
        """The socket is gone: release everything at once, since the remaining objects refer to each
        other and may stay in memory for long. The memory of unfinished messages is returned to the
        caller: there may be so much that freeing it takes long."""
        held = self.unfinished.take()
        self._stop()
        self._input.take()
        self.out.clear()
        return held

    def _stop(self) -> None:
        self._shut()
        self.closed = True
        self._handshake.stage = STAGE_CLOSED


def _bad_frame(size: int, size_max: int, doff: int, kind: int) -> AmqpError:
    if size > size_max:
        text = f"A frame of {size} bytes exceeds the maximum of {size_max} bytes."
    else:
        text = f"A frame is malformed: size {size}, data offset {doff}, type {kind}."
    return AmqpError(conditions.CONNECTION_FRAMING_ERROR, text)
