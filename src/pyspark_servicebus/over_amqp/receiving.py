"""Locked messages, received on the driver.

Owns the receiving of available messages, up to a number, without leaving credit behind that would
lock others later. The caller decides what happens to them: deferral, or waiting for a settlement.
"""

import asyncio
import time
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from partibus.client.errors import requires_sessions
from partibus.client.links import ReceivedMessage, Receiver
from partibus.client.message import IncomingMessage
from pyspark_servicebus.errors import BulkError
from pyspark_servicebus.over_amqp.holding import Holding
from pyspark_servicebus.over_amqp.wire import Wire

FIRST_SECONDS_MAX: Final = 1.0
"""How long a distant bus may take to deliver its first message."""
CLOCK_MS: Final = 10_000
"""How far the clock of the bus may be behind ours."""


@dataclass(frozen=True, slots=True)
class Received:
    """A locked message: what is recorded of it, and its delivery."""

    holding: Holding
    delivery: ReceivedMessage
    enqueued_ms: int
    locked_for_ms: int


def receive(wire: Wire, path: str, count: int) -> list[Received]:
    """Up to `count` waiting messages, locked; empty when there are none.

    Not retried: messages in flight when a connection broke stay locked.
    """

    async def take(wire: Wire) -> list[ReceivedMessage]:
        receiver = await wire.receiver(path)
        return await receiver.collect(count) or await _first(receiver, count)

    try:
        return [_received(delivery) for delivery in wire.call(take)]
    except BulkError as error:
        if not requires_sessions(error.text):
            raise
        text = f"'{path}' requires sessions, which cannot be received here; write mode=peek."
        raise BulkError(error.condition, text, False) from None


async def _first(receiver: Receiver, count: int) -> list[ReceivedMessage]:
    """What arrives a little later; a distant bus may report too early that there is nothing."""
    try:
        async with asyncio.timeout(FIRST_SECONDS_MAX):
            first = await receiver.receive(count)
    except TimeoutError:
        first = []
    return first + await receiver.collect(count - len(first))


def _received(delivery: ReceivedMessage) -> Received:
    message = IncomingMessage(delivery.payload)
    token = str(UUID(bytes_le=delivery.tag))
    holding = Holding(message.sequence_number, len(delivery.payload), token)
    now_ms = int(time.time() * 1000)
    lock_ms = (message.locked_until_ms or now_ms) - now_ms
    return Received(holding, delivery, message.enqueued_ms or 0, lock_ms)
