"""One client from its first byte to its last.

Owns the engine of a connection, its grants, and the table from engine events to the objects that
serve its links. Knows when the connection must be checked again (idle time-outs, missing or expired
tokens) and when reading has to pause. Driven by the listener with bytes and by fragments through
the links' ports; writes through its `Wire`.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from partibus.amqp.connection import Connection
from partibus.amqp.delivery import DeliveryState, TransactionalState
from partibus.amqp.errors import AmqpError
from partibus.amqp.events import (
    AttachReceived,
    CloseReceived,
    ConnectionFailed,
    DetachReceived,
    DispositionReceived,
    EndReceived,
    Event,
    FlowReceived,
    LinkFailed,
    OpenReceived,
    SaslInitReceived,
    SessionFailed,
    TransferReceived,
    TransferRefused,
)
from partibus.amqp.link import Link
from partibus.amqp.session import Session
from partibus.domain.errors import BusError, InvalidOperation, MessageTooLarge, Unauthorized
from partibus.domain.observing.notices import refused
from partibus.gateway.admission import put_plain
from partibus.gateway.error_mapping import amqp_error
from partibus.gateway.fault_injection import throttled
from partibus.gateway.grants import Grants
from partibus.gateway.links.attach import LinkOwner, attach
from partibus.gateway.links.inbound import InboundLink
from partibus.gateway.links.outbound import OutboundLink
from partibus.gateway.links.relay import RelayLink
from partibus.gateway.links.rights import unauthorized_links
from partibus.gateway.links.session import SessionLink
from partibus.gateway.memory.account import Share
from partibus.gateway.operations.peek import PeekPosition
from partibus.gateway.origin import Origin
from partibus.gateway.reading_turns import Intake
from partibus.gateway.requests import RequestLink, RequestQueue, ResponseLink
from partibus.gateway.transactions.coordinator import CoordinatorLink
from partibus.gateway.transactions.open_transactions import OpenTransactions
from partibus.gateway.wire import Wire

if TYPE_CHECKING:
    from partibus.gateway.gateway import Gateway

TOKEN_DEADLINE_MS: Final = 20_000
"""A client that connected without a key must put a token within this time (SAS-9)."""
CLOSE_GRACE_MS: Final = 5_000
"""How long a client may take to answer our close before it is cut off."""
HOST_LENGTH_MAX: Final = 255
"""The longest host name."""
UNCONFIRMED_BYTES_MAX: Final = 16 * 1024 * 1024
"""Unconfirmed sends of one connection at which its socket is no longer read."""

NOT_OPEN: Final = "One of its messages was sent on a link that was refused."
TOO_LARGE: Final = "One of its messages is larger than its entity accepts."
"""Why a transaction cannot be committed when a message never reached a link's owner."""


class ClientConnection:
    """One client."""

    def __init__(self, gateway: "Gateway", wire: Wire) -> None:
        self.gateway = gateway
        self._wire = wire
        now_ms = gateway.monotonic_ms()
        self.engine = Connection(gateway.settings, now_ms=now_ms)
        self.origin = Origin(wire, gateway.now_ms())
        self.grants = Grants(gateway.access, gateway.profile.tokens_per_connection_max)
        self._links: dict[Link, LinkOwner] = {}
        self.requests = RequestQueue(self)
        self.transactions = OpenTransactions(self)
        self.peek_positions: dict[tuple[str, int, str | None, str], PeekPosition] = {}
        """The positions of this client's peeks, by entity, subqueue, session and receiver."""
        self.held_sessions: dict[tuple[str, str], SessionLink] = {}
        """The sessions that this client holds, by entity and session id."""
        self._sending: list[InboundLink] = []
        self.host = ""
        """The host name by which the client addressed us; errors quote it."""
        self._started_ms = now_ms
        self._grants_are_stale = False
        self.is_writable = True
        self._is_flush_due = False
        self._is_over = False
        self._is_deaf = False
        """Nothing more is accepted from the client: the server is about to stop."""
        self._share = Share(gateway.memory)
        self._intake = Intake(self, wire, self._share, gateway.turns)
        self._written_bytes = self._unsent_bytes = 0
        """What was written since the client fell behind, and just before."""
        self._cut_off_at_ms: int | None = None
        self.unconfirmed_bytes = 0
        """Bytes of sends that the store has not confirmed."""
        self._handlers: dict[type[Event], Callable[[Event], None]] = {
            TransferReceived: self._transfer,
            TransferRefused: self._transfer_refused,
            DispositionReceived: self._disposition,
            FlowReceived: self._flow,
            AttachReceived: self._attach,
            DetachReceived: self._detach,
            LinkFailed: self._detach,
            EndReceived: self._end,
            SessionFailed: self._end,
            SaslInitReceived: self._sasl,
            OpenReceived: self._open,
            CloseReceived: self._close,
            ConnectionFailed: self._close,
        }
        if gateway.faults is not None:
            self._handlers[TransferReceived] = self._transfer_if_admitted
        self.wake_at_ms = now_ms + TOKEN_DEADLINE_MS

    # --- from the listener ------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Bytes from the client; they are handled in this turn of the loop or a later one."""
        self._intake.take(data)

    def handle(self, data: bytes) -> None:
        """Run the engine on bytes of the client, and handle all events that it reports."""
        if self._is_deaf:
            return
        engine, memory = self.engine, self.gateway.memory
        engine.unfinished.bytes_max = self.unfinished_bytes_max()
        engine.incoming_window = memory.window(engine.settings.incoming_window)
        events = engine.receive_data(data, self.gateway.monotonic_ms())
        self._handle(events)
        if self._sending:
            sending, self._sending = self._sending, []
            for link in sending:
                link.submit()
        self.count_memory()
        self._intake.was_handled(len(data), len(events))
        self._flush()

    def _handle(self, events: list[Event]) -> None:
        handlers = self._handlers
        for event in events:
            handler = handlers.get(type(event))
            if handler is not None:
                handler(event)

    def pause_writing(self) -> None:
        """The client does not read fast enough: ask fragments for nothing more."""
        self.is_writable = False
        self._unsent_bytes = self._written_bytes
        self.count_memory()

    def resume_writing(self) -> None:
        """The client has caught up."""
        if self._is_deaf:
            return
        self.is_writable = True
        self._unsent_bytes = 0
        self.count_memory()
        for owner in list(self._links.values()):
            if isinstance(owner, OutboundLink):
                owner.pull()
            elif isinstance(owner, ResponseLink):
                owner.flow()
        self.requests.go_on()

    def connection_lost(self) -> None:
        """The socket is gone; links are gone with it (SEED-104)."""
        self._intake.finish()
        self._finish()

    # --- output and time --------------------------------------------------------------------

    def has_output(self) -> None:
        """Something was written to the engine outside of `data_received`; flush it soon."""
        if not self._is_flush_due:
            self._is_flush_due = True
            self.gateway.scheduler.call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flush_due = False
        if self._is_over:
            return
        data = self.engine.data_to_send()
        if data:
            self._written_bytes = len(data)
            self._wire.write(data)
            if not self.is_writable:
                self._unsent_bytes += len(data)
        self.count_memory()
        if not self._intake.is_reading:
            self._intake.read_on()
        if self.engine.closed:
            self._finish()
            self._wire.close()

    def count_memory(self) -> None:
        """Report to the shared account how much memory this client uses."""
        self._share.update(
            self.unconfirmed_bytes + self.requests.waiting_bytes + self._intake.waiting_bytes,
            self.engine.unfinished_bytes + self.transactions.byte_count,
            self._unsent_bytes,
        )

    def unfinished_bytes_max(self) -> int:
        """The limit on this client's unfinished messages."""
        return self.gateway.memory.unfinished_max(self._share)

    def is_behind(self) -> bool:
        """Whether too much of what the client has sent is unanswered."""
        return self.unconfirmed_bytes > UNCONFIRMED_BYTES_MAX or self.requests.is_behind

    def has_caught_up(self) -> bool:
        """Whether it is worth reading from it again."""
        return self.unconfirmed_bytes * 2 < UNCONFIRMED_BYTES_MAX and not self.requests.is_behind

    def tick(self, now_ms: int) -> None:
        """Check idle time-outs and tokens; sets when to check again."""
        if self._is_ending():
            self._cut_off_if_due(now_ms)
            return
        if not self._intake.is_reading:
            self.engine.unfinished.excuse(now_ms)
        self._handle(self.engine.tick(now_ms))
        # Tokens expire by the time of day, everything else by elapsed time.
        ahead_ms = self.gateway.now_ms() - now_ms
        self._check_grants(now_ms, now_ms + ahead_ms)
        self.transactions.expire(now_ms)
        self._flush()
        if self._is_ending():
            return
        times = [self.engine.next_tick_ms(), self.transactions.next_deadline_ms()]
        expiry_ms = self.grants.next_expiry_ms()
        if expiry_ms is not None:
            times.append(expiry_ms - ahead_ms)
        if self.grants.are_empty:
            times.append(self._started_ms + TOKEN_DEADLINE_MS)
        self.wake_at_ms = min([t for t in times if t is not None], default=now_ms + 60_000)

    def _check_grants(self, now_ms: int, day_ms: int) -> None:
        if self._grants_are_stale:
            self._grants_are_stale = False
            if self.grants.recheck():
                self._started_ms = now_ms
                self._drop_unauthorized(day_ms)
        if self.grants.are_empty and now_ms >= self._started_ms + TOKEN_DEADLINE_MS:
            self.close(Unauthorized("No token was sent within 20 seconds; authenticate first."))
        elif self.grants.drop_expired(day_ms):
            self._started_ms = now_ms
            self._drop_unauthorized(day_ms)

    def _drop_unauthorized(self, now_ms: int) -> None:
        """Drop links whose token has expired (SAS-10)."""
        for link, error in unauthorized_links(self.links, self.grants, now_ms):
            self.drop(link, error)

    def grants_changed(self) -> None:
        """A token was put: check again at once when the next one expires."""
        expiry_ms = self.grants.next_expiry_ms()
        if expiry_ms is not None:
            gateway = self.gateway
            self.wake_by(expiry_ms - gateway.now_ms() + gateway.monotonic_ms())

    def wake_by(self, time_ms: int) -> None:
        """Check the connection at this time at the latest."""
        if time_ms < self.wake_at_ms:
            self.wake_at_ms = time_ms
            self.gateway.expect(self)

    def close(self, error: BusError | None = None) -> None:
        """End the connection from our side."""
        if not self._is_over:
            if error is not None:
                refused("connection closed", error, **self.origin.facts())
            self.engine.close(amqp_error(error) if error is not None else None)
            self._expect_close()
            self.has_output()

    def _is_ending(self) -> bool:
        return self._cut_off_at_ms is not None

    def _expect_close(self) -> None:
        """Give the client a moment to answer our close."""
        if self._cut_off_at_ms is None:
            self._cut_off_at_ms = self.wake_at_ms = self.gateway.monotonic_ms() + CLOSE_GRACE_MS

    def _cut_off_if_due(self, now_ms: int) -> None:
        assert self._cut_off_at_ms is not None
        self.wake_at_ms = self._cut_off_at_ms
        if now_ms >= self._cut_off_at_ms and not self._is_over:
            self._finish()
            self._wire.abort()

    def quiesce(self) -> None:
        """The server is about to stop: accept and deliver nothing more; answers are still sent."""
        self._is_deaf = True
        self.is_writable = False
        for owner in list(self._links.values()):
            if isinstance(owner, OutboundLink):
                owner.withdraw()

    def force_close(self, error: AmqpError) -> None:
        """The server stops: send the close and end the connection."""
        if not self._is_over:
            self.engine.close(error)
            self._flush()
            self._finish()
            self._wire.linger()

    # --- engine events --------------------------------------------------------------------

    def _sasl(self, event: Event) -> None:
        assert isinstance(event, SaslInitReceived)
        is_welcome = event.mechanism != "PLAIN" or put_plain(self, event.response)
        # A client may have sent its open right after its SASL init; handle it now.
        self._handle(self.engine.sasl_outcome(is_welcome))

    def _open(self, event: Event) -> None:
        assert isinstance(event, OpenReceived)
        hostname = event.frame.hostname
        if hostname is not None and len(hostname) <= HOST_LENGTH_MAX:
            self.host = hostname
        self.engine.open()
        # The peer counts its idle time-out from here on [2.4.5].
        due_ms = self.engine.next_tick_ms()
        if due_ms is not None:
            self.wake_by(due_ms)

    def _attach(self, event: Event) -> None:
        assert isinstance(event, AttachReceived)
        self.attach(event.link)

    def attach(self, link: Link) -> None:
        """A client's link: accepted now or soon, or refused."""
        attach(self, link)
        owner = link.context
        if owner is not None:
            assert isinstance(owner, LinkOwner)
            self._links[link] = owner
            self._intake.admitted()
            if isinstance(owner, OutboundLink):
                self.gateway.receivers.add(owner.path)

    def _transfer(self, event: Event) -> None:
        assert isinstance(event, TransferReceived)
        owner = event.link.context
        if isinstance(owner, InboundLink | RequestLink | CoordinatorLink | RelayLink):
            owner.transfer(event)
        else:
            self._leave_out(event.state, InvalidOperation(NOT_OPEN))

    def _transfer_refused(self, event: Event) -> None:
        """A message was too large for its link; the client has been answered."""
        assert isinstance(event, TransferRefused)
        self._leave_out(event.state, MessageTooLarge(TOO_LARGE))

    def _leave_out(self, state: DeliveryState | None, error: BusError) -> None:
        """A transaction that lacks one of its messages cannot be committed (TXN-2)."""
        if isinstance(state, TransactionalState):
            self.transactions.fail(state.txn_id, error)

    def _transfer_if_admitted(self, event: Event) -> None:
        """Replaces `_transfer` when faults are on: a throttle may refuse a send."""
        assert isinstance(event, TransferReceived)
        owner, faults, now_ms = event.link.context, self.gateway.faults, self.gateway.monotonic_ms()
        assert faults is not None
        if isinstance(owner, InboundLink) and faults.refuses(owner.path, now_ms):
            owner.refuse(event, throttled())
        else:
            self._transfer(event)

    def has_sends(self, link: InboundLink) -> None:
        """A link has messages to submit at the end of this read."""
        self._sending.append(link)

    def _disposition(self, event: Event) -> None:
        assert isinstance(event, DispositionReceived)
        deliveries = event.deliveries
        first = deliveries[0].link
        if all(delivery.link is first for delivery in deliveries):
            groups = {first: deliveries}
        else:
            groups = {}
            for delivery in deliveries:
                groups.setdefault(delivery.link, []).append(delivery)
        for link, group in groups.items():
            owner = link.context
            if isinstance(owner, OutboundLink):
                owner.settle(group, event.state, event.settled)

    def _flow(self, event: Event) -> None:
        assert isinstance(event, FlowReceived)
        owner = event.link.context
        if isinstance(owner, OutboundLink | ResponseLink):
            owner.flow()

    def _detach(self, event: Event) -> None:
        assert isinstance(event, DetachReceived | LinkFailed)
        self._forget(event.link)

    def _end(self, event: Event) -> None:
        assert isinstance(event, EndReceived | SessionFailed)
        for link in [link for link in self._links if link.session is event.session]:
            self._forget(link)

    def _close(self, event: Event) -> None:
        for link in list(self._links):
            self._forget(link)
        self._expect_close()

    def wake(self, session: Session) -> None:
        """Settling made room in a session: its waiting links may continue."""
        for link in session.wakeable():
            owner = link.context
            if isinstance(owner, OutboundLink | ResponseLink):
                owner.flow()

    def move(self, gateway: "Gateway") -> None:
        """The first key that the client presents belongs to another namespace of this server."""
        self.gateway.forget(self, [])
        self.gateway = gateway
        self.grants = Grants(gateway.access, gateway.profile.tokens_per_connection_max)
        gateway.adopt(self, self._wire)

    # --- changes of entities ------------------------------------------------------------------

    @property
    def link_count(self) -> int:
        """The number of its links."""
        return len(self._links)

    @property
    def links(self) -> list[tuple[Link, LinkOwner]]:
        """Every link with its owner, at this moment."""
        return list(self._links.items())

    def recheck_grants(self) -> None:
        """Policies have changed: check the grants at the next sweep (SAS-7)."""
        self._grants_are_stale = True
        self.wake_by(self.gateway.monotonic_ms())

    # --- links ------------------------------------------------------------------------------

    def drop(self, link: Link, error: BusError) -> None:
        """End a link from our side, or refuse it if it is not accepted yet."""
        refused("link dropped", error, link=link.name, **self.origin.facts())
        self._forget(link)
        link.detach(amqp_error(error, self.host))
        self.has_output()

    def _forget(self, link: Link) -> None:
        owner = self._links.pop(link, None)
        link.context = None
        if owner is not None:
            owner.closed()
            if isinstance(owner, OutboundLink):
                self.gateway.receivers.remove(owner.path)

    def _finish(self) -> None:
        if not self._is_over:
            self._is_over = True
            for link in list(self._links):
                self._forget(link)
            held = self.engine.lost()
            self._share.update(0, 0, 0)
            self._intake.close()
            self.gateway.forget(self, held)
