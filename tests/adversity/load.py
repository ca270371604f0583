"""A client that makes traffic: pipelined sends that know which of them were acknowledged, and
receivers that take all there is.

Built on the project's own client, which is quick enough to keep a server busy. Everything
here ends when the connection does; what was acknowledged until then stays known.
"""

import uuid
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final

from partibus.amqp.delivery import Accepted, Delivery, DeliveryState, Rejected
from partibus.amqp.events import TransferReceived
from partibus.client.connection import BusClient
from partibus.client.links import ReceivedMessage, Receiver, Sender

from adversity.letters import Received
from support.namespace import ROOT_KEY, ROOT_POLICY
from support.server import ServerProcess

WINDOW: Final = 500
CREDIT: Final = 1000


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


class Inbox(Receiver):
    """Receives what comes, looks at every letter, and can tell when nothing is left."""

    def __init__(self, flush: Callable[[], None]) -> None:
        super().__init__(flush, 0)
        self.messages: list[tuple[Received, ReceivedMessage]] = []

    def take(self, event: TransferReceived) -> None:
        message = ReceivedMessage(event.delivery_id, event.tag, event.settled, event.payload)
        self.messages.append((Received(event.payload), message))
        self.wake()

    async def take_next(self, count: int) -> list[tuple[Received, ReceivedMessage]]:
        """The next ones, as soon as there is any."""
        self.usable().set_credit(count)
        while not self.messages:
            await self.moved()
        batch, self.messages = self.messages, []
        return batch

    async def take_all(self) -> list[tuple[Received, ReceivedMessage]]:
        """Everything that can be received now, until the server says that no more is there."""
        taken: list[tuple[Received, ReceivedMessage]] = []
        while True:
            batch = await self.take_up_to(CREDIT)
            if not batch:
                return taken
            taken += batch

    async def take_up_to(self, count: int) -> list[tuple[Received, ReceivedMessage]]:
        """As many as there are, at most `count`."""
        link = self.usable()
        link.set_credit(count, drain=True)
        while link.drain:
            await self.moved()
        batch, self.messages = self.messages, []
        return batch


class LoadClient(BusClient):
    """One connection with the means above."""

    async def pipeline(
        self, address: str, on_accepted: Callable[[object], None] = lambda name: None
    ) -> Pipeline:
        pipeline = Pipeline(self.flush, on_accepted)
        name = str(uuid.uuid4())
        await self._attach(pipeline, self.engine.begin(), name, address, True, 0, None)
        return pipeline

    async def inbox(self, address: str, *, deletes: bool = False) -> Inbox:
        inbox = Inbox(self.flush)
        name = str(uuid.uuid4())
        mode = 1 if deletes else 0
        await self._attach(inbox, self.engine.begin(), name, address, False, mode, None)
        return inbox


def load_client(server: ServerProcess) -> AbstractAsyncContextManager[LoadClient]:
    """A connection with every right."""
    port = server.ready.amqp_port
    return LoadClient.connect("127.0.0.1", port, user=ROOT_POLICY, password=ROOT_KEY)
