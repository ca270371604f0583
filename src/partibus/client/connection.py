"""A connection of the client: the engine, its socket, and its links.

Owns the asyncio protocol that pumps one engine, and the dispatch of engine events to senders and
receivers. Each link has its own session, as with the vendor's JS client. Must never decode a
message. Opened by tools, tests and benchmarks.
"""

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from ssl import SSLContext
from typing import Final, Self

from partibus.amqp import events
from partibus.amqp.connection import Connection
from partibus.amqp.errors import AmqpError
from partibus.amqp.session import Session
from partibus.amqp.settings import ConnectionSettings
from partibus.amqp.terminus import encode_source, encode_target
from partibus.client.errors import RemoteError
from partibus.client.links import LinkOwner, Receiver, Sender
from partibus.domain import conditions
from partibus.domain.clock import Clock, SystemClock

# Settle modes [2.8.2, 2.8.3]: of the sender, then of the receiver.
_UNSETTLED: Final = 0
_SETTLED: Final = 1
_RECEIVER_FIRST: Final = 0
_RECEIVER_SECOND: Final = 1
CLOSE_SECONDS_MAX: Final = 5.0
"""How long to wait for the peer's close; a peer that is gone sends none."""


class BusClient(asyncio.Protocol):
    """One connection to a bus. Use it as `async with BusClient.connect(...) as client`."""

    def __init__(self, settings: ConnectionSettings, clock: Clock) -> None:
        self._clock = clock
        # A message that stalls here is received again, as after any timeout of the bus.
        settings = replace(settings, stalled_condition=conditions.MICROSOFT_TIMEOUT)
        self.engine = Connection(settings, initiator=True, now_ms=clock.monotonic_ms())
        self.error: RemoteError | None = None
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due_ms = 0
        self._owners: dict[LinkOwner, None] = {}  # in the order in which they came
        self._connection_moved = LinkOwner(self.flush)

    @classmethod
    @asynccontextmanager
    async def connect(
        cls,
        host: str,
        port: int,
        *,
        user: str | None = None,
        password: str | None = None,
        ssl: SSLContext | None = None,
        settings: ConnectionSettings | None = None,
        seconds_max: float | None = None,
    ) -> AsyncIterator[Self]:
        """Connect with SASL PLAIN when there is a user (a policy and its key), else anonymously.

        `seconds_max` limits the time until the bus has opened; after that it is a TimeoutError.
        """
        settings = settings or ConnectionSettings(
            container_id=f"partibus-{uuid.uuid4()}", hostname=host, max_message_size=1 << 30
        )
        client = cls(settings, SystemClock())
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(seconds_max):
                await loop.create_connection(lambda: client, host, port, ssl=ssl)
                await client._open(user, password)
            yield client
        finally:
            await client.close()

    @classmethod
    @asynccontextmanager
    async def over(cls, plug: Callable[[Self], None], name: str) -> AsyncIterator[Self]:
        """Connect within a process: `plug` gives the client its transport."""
        settings = ConnectionSettings(
            container_id=name, hostname="localhost", max_message_size=1 << 30
        )
        client = cls(settings, SystemClock())
        try:
            plug(client)
            await client._open(None, None)
            yield client
        finally:
            await client.close()

    async def _open(self, user: str | None, password: str | None) -> None:
        if user is not None:
            self.engine.sasl_plain(user, password or "")
        else:
            self.engine.sasl_anonymous()
        self.engine.open()
        while self.engine.remote_open is None:
            await self._connection_moved.moved()

    async def sender(self, address: str) -> Sender:
        sender = Sender(self.flush)
        await self.attach(sender, self.engine.begin(), str(uuid.uuid4()), address)
        return sender

    async def receiver(
        self,
        address: str,
        *,
        prefetch: int = 0,
        receive_and_delete: bool = False,
        filters: dict[str, object] | None = None,
        properties: Mapping[str, object] | None = None,
    ) -> Receiver:
        """Receive with locks, or with `receive_and_delete` without; see Receiver for credit."""
        receiver = Receiver(self.flush, prefetch)
        await self.attach(
            receiver,
            self.engine.begin(),
            str(uuid.uuid4()),
            address,
            settled=receive_and_delete,
            properties=properties,
            filters=filters,
        )
        return receiver

    async def request_pair(self, node: str, credit: int) -> tuple[Sender, Receiver]:
        """The links to a node that answers requests, in one session; answers come settled."""
        session = self.engine.begin()
        answers, requests = Receiver(self.flush, credit), Sender(self.flush)
        name = str(uuid.uuid4())
        await self.attach(requests, session, f"{name}-requests", node)
        await self.attach(answers, session, name, node, settled=True)
        return requests, answers

    async def attach(
        self,
        owner: LinkOwner,
        session: Session,
        name: str,
        address: str,
        *,
        settled: bool = False,
        properties: Mapping[str, object] | None = None,
        filters: dict[str, object] | None = None,
        target: bytes | None = None,
    ) -> None:
        """Attach a link and wait for the other side; `target` is for nodes without an address."""
        if self.error is not None:
            raise self.error
        is_sender = isinstance(owner, Sender)
        link = session.attach(
            name,
            is_sender=is_sender,
            source=encode_source(name if is_sender else address, filters),
            target=target or encode_target(address if is_sender else name),
            snd_settle_mode=_SETTLED if settled else _UNSETTLED,
            rcv_settle_mode=_RECEIVER_FIRST if settled else _RECEIVER_SECOND,
            properties=properties,
        )
        link.context = session.context = owner
        self._owners[owner] = None
        while owner.link is None:
            await owner.moved()

    async def close(self) -> None:
        """Close cleanly; waits a while for the answer of the bus."""
        if self._transport is None:
            return
        self.engine.close()
        try:
            async with asyncio.timeout(CLOSE_SECONDS_MAX):
                while self.error is None and not self.engine.closed:
                    await self._connection_moved.moved()
        except (RemoteError, TimeoutError):
            pass
        finally:
            if self._timer is not None:
                self._timer.cancel()
            self._transport.close()

    # --- the socket ---------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        for event in self.engine.receive_data(data, self._clock.monotonic_ms()):
            self._take(event)
        self.flush()

    def flush(self) -> None:
        data = self.engine.data_to_send()
        if data and self._transport is not None:
            self._transport.write(data)
        self._set_timer()

    def pause_writing(self) -> None:
        for owner in self._owners:
            owner.writable = False

    def resume_writing(self) -> None:
        for owner in self._owners:
            owner.writable = True
            owner.wake()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.engine.closed:
            text = "The connection was lost." if exc is None else f"The connection was lost: {exc}"
            self._fail(AmqpError(conditions.CONNECTION_FORCED, text))

    def _set_timer(self) -> None:
        """Wake the engine when it is due; a later due time is noticed on waking."""
        due_ms = self.engine.next_tick_ms()
        if due_ms is None or (self._timer is not None and due_ms >= self._timer_due_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        delay_ms = max(0, due_ms - self._clock.monotonic_ms())
        self._timer = asyncio.get_running_loop().call_later(delay_ms / 1000, self._tick)
        self._timer_due_ms = due_ms

    def _tick(self) -> None:
        self._timer = None
        for event in self.engine.tick(self._clock.monotonic_ms()):
            self._take(event)
        self.flush()

    # --- events -------------------------------------------------------------------------------

    def _take(self, event: events.Event) -> None:
        if isinstance(event, events.TransferReceived):
            owner = event.link.context
            if isinstance(owner, Receiver):
                owner.take(event)
        elif isinstance(event, events.DispositionReceived):
            self._settled(event)
        elif isinstance(event, events.IncomingSettled):
            owner = event.session.context
            if isinstance(owner, Receiver):
                owner.settled(event.first, event.last, event.state)
        elif isinstance(event, events.FlowReceived):
            owner = event.link.context
            if isinstance(owner, LinkOwner):
                owner.wake()
        else:
            self._take_control(event)

    def _settled(self, event: events.DispositionReceived) -> None:
        owner = event.deliveries[0].link.context
        if isinstance(owner, Sender):
            if not event.settled:
                for delivery in event.deliveries:
                    delivery.link.settle_sent(delivery, b"\x40")
            owner.settled(event.deliveries, event.state)

    def _take_control(self, event: events.Event) -> None:
        if isinstance(event, events.OpenReceived):
            self._connection_moved.wake()
        elif isinstance(event, events.AttachConfirmed):
            owner = event.link.context
            if isinstance(owner, LinkOwner) and _is_granted(event):
                owner.attached(event.link)
                owner.wake()
        elif isinstance(event, events.DetachReceived | events.LinkFailed):
            self._end_link(event.link.context, event.error, event.link.name)
            event.link.session.end()
        elif isinstance(event, events.EndReceived | events.SessionFailed):
            for owner in self._owners_in(event.session):
                self._end_link(owner, event.error, "session")
        elif isinstance(event, events.CloseReceived | events.ConnectionFailed):
            self._fail(event.error)
        elif isinstance(event, events.SaslOutcomeReceived) and event.code != 0:
            self._fail(AmqpError(conditions.UNAUTHORIZED_ACCESS, "SASL was refused."))

    def _owners_in(self, session: Session) -> list[object]:
        """The owners of links in a session, attached or waiting."""
        attached = [o for o in self._owners if o.link is not None and o.link.session is session]
        return [*attached, session.context]

    def _end_link(self, owner: object, error: AmqpError | None, name: str) -> None:
        if isinstance(owner, LinkOwner):
            self._owners.pop(owner, None)
            owner.fail(error, f"Link {name} ended")

    def _fail(self, error: AmqpError | None) -> None:
        if self.error is None:
            self.error = RemoteError(error, "The connection ended")
        for owner in self._owners:
            owner.fail(error, "The connection ended")
        self._owners.clear()
        self._connection_moved.fail(error, "The connection ended")


def _is_granted(event: events.AttachConfirmed) -> bool:
    """A refusal attaches without the end that we requested, followed by a detach."""
    link = event.link
    return link.target is not None if link.is_sender else link.source is not None
