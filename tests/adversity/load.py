"""A client that makes traffic: pipelined sends that know which of them were acknowledged, and
receivers that take all there is.

Built on the project's own client, which is quick enough to keep a server busy. Everything
here ends when the connection does; what was acknowledged until then stays known.
"""

import uuid
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final

from adversity.letters import Received
from partibus.amqp.delivery import Accepted, Delivery, DeliveryState, Rejected
from partibus.amqp.events import TransferReceived
from partibus.client.connection import BusClient
from partibus.client.links import ReceivedMessage, Receiver, Sender
from support.namespace import ROOT_KEY, ROOT_POLICY
from support.server import ServerProcess

WINDOW: Final = 500
CREDIT: Final = 1000
DRAIN_CREDIT: Final = 1000


class Pipeline(Sender):
    """Sends without waiting for each answer, and tells of each answer."""

    def __init__(self, flush: Callable[[], None], on_accepted: Callable[[object], None]) -> None:
        super().__init__(flush)
        self._on_accepted = on_accepted
        self._tag = 0
        self._open = 0
        self.refusals: list[str] = []

    async def post(
        self, letters: Iterable[tuple[object, bytes, int]], *, window: int = WINDOW
    ) -> None:
        """Send `(name, payload, message format)` until they end; then wait for all answers."""
        for count, (name, payload, message_format) in enumerate(letters, 1):
            link = self.usable()
            while self._open >= window or not self.writable or link.sendable() <= 0:
                await self.moved()
            self._tag += 1
            self._open += 1
            link.send(payload, self._tag.to_bytes(8, "big"), False, message_format, name)
            if count % 64 == 0:
                self.flush()
        while self._open:
            await self.moved()

    def settled(self, deliveries: Sequence[Delivery], state: DeliveryState | None) -> None:
        self._open -= len(deliveries)
        if isinstance(state, Accepted):
            for delivery in deliveries:
                self._on_accepted(delivery.context)
        else:
            error = state.error if isinstance(state, Rejected) else None
            self.refusals += [error.condition if error else "no reason"] * len(deliveries)
        self.wake()


Taken = tuple[Received, ReceivedMessage]


class Inbox(Receiver):
    """Receives what comes and looks at every letter."""

    def __init__(self, flush: Callable[[], None], credit: int) -> None:
        super().__init__(flush, credit)
        self._credit = credit
        self.taken: list[Taken] = []

    def take(self, event: TransferReceived) -> None:
        message = ReceivedMessage(event.delivery_id, event.tag, event.settled, event.payload)
        self.taken.append((Received(event.payload), message))
        link = self.usable()
        if link.credit * 2 <= self._credit and not link.drain:
            link.set_credit(self._credit)
        self.wake()

    def hand_out(self) -> list[Taken]:
        """What came since the last time."""
        taken, self.taken = self.taken, []
        return taken

    async def some(self) -> list[Taken]:
        """What came since the last time, as soon as that is anything."""
        while not self.taken:
            await self.moved()
        return self.hand_out()

    async def drain(self) -> None:
        """Take what is there, if anything is, and end the receiving."""
        link = self.usable()
        self._credit = 0
        link.set_credit(DRAIN_CREDIT, drain=True)
        while link.drain:
            await self.moved()


class LoadClient(BusClient):
    """One connection with the means above."""

    _is_lost = False

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = True
        super().connection_lost(exc)

    async def close(self) -> None:
        """Leave no bytes behind that a dead server will never take. A transport that has ended
        after its last bytes cannot be aborted: asyncio would look for its loop."""
        await super().close()
        if self._transport is not None and not self._is_lost:
            self._transport.abort()

    async def pipeline(
        self, address: str, on_accepted: Callable[[object], None] = lambda name: None
    ) -> Pipeline:
        pipeline = Pipeline(self.flush, on_accepted)
        name = str(uuid.uuid4())
        await self.attach(pipeline, self.engine.begin(), name, address)
        return pipeline

    async def inbox(self, address: str, *, credit: int = CREDIT, deletes: bool = False) -> Inbox:
        inbox = Inbox(self.flush, credit)
        name = str(uuid.uuid4())
        await self.attach(inbox, self.engine.begin(), name, address, settled=deletes)
        return inbox


def load_client(server: ServerProcess) -> AbstractAsyncContextManager[LoadClient]:
    """A connection with every right."""
    port = server.ready.amqp_port
    return LoadClient.connect("127.0.0.1", port, user=ROOT_POLICY, password=ROOT_KEY)
