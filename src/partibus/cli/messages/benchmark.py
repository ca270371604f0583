"""A quick load: messages through one entity and back, with rates and latencies.

Owns the run and its numbers. Each message contains the time of its sending, so that latency is
measured from the send to the receipt on the same clock. It measures this client as much as the
server: one process, one connection for each side. Called by `partibus bench`.
"""

import asyncio
import time
import uuid
from dataclasses import dataclass, field
from typing import Final

from partibus.amqp.delivery import ACCEPTED
from partibus.cli.messages.sending import MessageStream
from partibus.cli.place import Place
from partibus.cli.progress import Advance
from partibus.client.links import ReceivedMessage, Receiver
from partibus.client.message import IncomingMessage, OutgoingMessage
from partibus.client.messages.pacing import Pacer

RUN_PROPERTY: Final = "partibus-bench-run"
SENT_PROPERTY: Final = "partibus-bench-sent-ns"
PREFETCH: Final = 500
QUIET_SECONDS_MAX: Final = 10.0
"""After this long without a message, the missing ones are considered lost."""
_PERCENTILES: Final = (50, 90, 99, 100)


@dataclass(slots=True, kw_only=True)
class Load:
    """What is asked for, and what was measured."""

    entity: str
    receive_from: str
    count: int
    size: int
    batch: int = 1
    rate_per_s: float | None = None
    with_receiver: bool = True
    sent: int = 0
    received: int = 0
    send_seconds: float = 0.0
    receive_seconds: float = 0.0
    latencies_ns: list[int] = field(default_factory=list)
    run_id: str = field(default_factory=lambda: uuid.uuid4().hex)

    async def run(self, place: Place, advance: Advance) -> None:
        """Send and receive at the same time."""
        async with asyncio.TaskGroup() as group:
            if self.with_receiver:
                ready = asyncio.Event()
                group.create_task(self._receive(place, advance, ready))
                await ready.wait()
            group.create_task(self._send(place, advance))

    async def _send(self, place: Place, advance: Advance) -> None:
        body = b"x" * self.size
        async with place.open() as bus:
            sender = await bus.sender(self.entity)
            stream = MessageStream(sender, self.batch, Pacer(self.rate_per_s))
            start = time.perf_counter()
            for _ in range(self.count):
                marks: dict[str, object] = {
                    RUN_PROPERTY: self.run_id,
                    SENT_PROPERTY: time.perf_counter_ns(),
                }
                await stream.put(OutgoingMessage(body=body, properties=marks))
                if not self.with_receiver:
                    advance(stream.confirmed)
            await stream.finish()
            self.send_seconds = time.perf_counter() - start
            self.sent = stream.confirmed

    async def _receive(self, place: Place, advance: Advance, ready: asyncio.Event) -> None:
        async with place.open() as bus:
            receiver = await bus.receiver(self.receive_from, prefetch=PREFETCH)
            foreign: list[ReceivedMessage] = []
            try:
                await self._rounds(receiver, foreign, advance, ready)
            finally:
                # Only now: if returned at once, they would be received again at once.
                await receiver.give_back(foreign)

    async def _rounds(
        self,
        receiver: Receiver,
        foreign: list[ReceivedMessage],
        advance: Advance,
        ready: asyncio.Event,
    ) -> None:
        ready.set()
        start = 0.0
        while self.received < self.count:
            try:
                async with asyncio.timeout(QUIET_SECONDS_MAX):
                    messages = await receiver.receive(PREFETCH)
            except TimeoutError:
                return
            start = start or time.perf_counter()
            foreign += await self._take(receiver, messages)
            self.receive_seconds = time.perf_counter() - start
            advance(self.received)

    async def _take(
        self, receiver: Receiver, messages: list[ReceivedMessage]
    ) -> list[ReceivedMessage]:
        """Complete our own messages; returns the others."""
        now = time.perf_counter_ns()
        ours: list[ReceivedMessage] = []
        foreign: list[ReceivedMessage] = []
        for message in messages:
            marks = IncomingMessage(message.payload).application_properties
            sent_ns = marks.get(SENT_PROPERTY)
            if marks.get(RUN_PROPERTY) == self.run_id and isinstance(sent_ns, int):
                ours.append(message)
                self.latencies_ns.append(now - sent_ns)
            else:
                foreign.append(message)
        await receiver.settle(ours, ACCEPTED)
        self.received += len(ours)
        return foreign

    def report(self) -> dict[str, object]:
        """The numbers by their names."""
        reported: dict[str, object] = {
            "entity": self.entity,
            "messages": self.count,
            "bytes_each": self.size,
            "batch": self.batch,
            "sent": self.sent,
            "send_per_s": _rate(self.sent, self.send_seconds),
            "send_seconds": round(self.send_seconds, 3),
        }
        if self.with_receiver:
            reported |= {
                "received": self.received,
                "receive_per_s": _rate(self.received, self.receive_seconds),
                "latency_ms": percentiles(self.latencies_ns),
            }
        return reported


def _rate(count: int, seconds: float) -> float:
    return round(count / seconds, 1) if seconds else 0.0


def percentiles(values_ns: list[int]) -> dict[str, float]:
    """Some percentiles in milliseconds; p100 is the slowest of all."""
    ordered = sorted(values_ns)
    if not ordered:
        return {}
    last = len(ordered) - 1
    return {f"p{p}": round(ordered[round(last * p / 100)] / 1e6, 2) for p in _PERCENTILES}
