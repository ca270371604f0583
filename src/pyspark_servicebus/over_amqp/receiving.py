"""Messages under a lock, received on the driver.

Owns the taking of what is there: a number of messages and no more, without leaving credit behind
that would lock others later. What becomes of them then, deferral or a wait for somebody to settle
them, is the caller's.
"""

import asyncio
import time
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from partibus.client.links import ReceivedMessage, Receiver
from partibus.client.message import IncomingMessage
from pyspark_servicebus.errors import BulkError
from pyspark_servicebus.over_amqp.holding import Holding
from pyspark_servicebus.over_amqp.wire import Wire

FIRST_SECONDS_MAX: Final = 1.0
"""How long a bus far away may take to bring its first message."""
CLOCK_MS: Final = 10_000
"""By how much the clock of the bus may be behind ours."""
SESSIONS_TEXT: Final = "requires sessions"


@dataclass(frozen=True, slots=True)
class Received:
    """A locked message: what is noted of it, and its delivery."""

    holding: Holding
    delivery: ReceivedMessage
    enqueued_ms: int
    locked_for_ms: int


def receive(wire: Wire, path: str, count: int) -> list[Received]:
    """Up to `count` messages that wait now, locked; none when there is nothing.

    Not tried again: messages that were on their way when a connection broke stay locked."""

    async def take(wire: Wire) -> list[ReceivedMessage]:
        receiver = await wire.receiver(path)
        return await receiver.collect(count) or await _first(receiver, count)

    try:
        return [_received(delivery) for delivery in wire.call(take)]
    except BulkError as error:
        if SESSIONS_TEXT not in error.text:
            raise
        text = f"'{path}' requires sessions, which cannot be received here; write mode=peek."
        raise BulkError(error.condition, text, False) from None


async def _first(receiver: Receiver, count: int) -> list[ReceivedMessage]:
    """What comes a little later; a bus far away may say too early that there is nothing."""
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
