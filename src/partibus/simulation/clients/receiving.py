"""Clients that receive: with prefetch or on demand, with every kind of settlement.

Owns what a receiver does with a message, and what is reported to the ledger: a settlement that was
requested and not answered leaves the message in doubt. Sessions are in `in_sessions`.
"""

import asyncio
import uuid

from partibus.amqp.delivery import ACCEPTED, MODIFIED_FAILED, MODIFIED_UNDELIVERABLE, rejected
from partibus.amqp.errors import AmqpError
from partibus.client.connection import BusClient
from partibus.client.errors import RemoteError
from partibus.client.links import ReceivedMessage
from partibus.client.management import Management
from partibus.client.message import IncomingMessage
from partibus.domain import conditions
from partibus.simulation.clients.client import (
    PATIENCE_S,
    SimulatedClient,
    WatchedReceiver,
    granted,
)
from partibus.simulation.entities import LIFE_MS

DEAD = rejected(AmqpError(conditions.MICROSOFT_DEAD_LETTER, "It was not wanted."))


class ReceivingClient(SimulatedClient):
    """Receives from a queue or subscription; completes most, abandons or dead-letters some."""

    kind = "receiver"
    places: tuple[str, ...] = (
        "plain",
        "single",
        "news/Subscriptions/a",
        "news/Subscriptions/b",
        "dups",
        "target",
        "mortal",
    )

    async def behave(self, bus: BusClient) -> None:
        known = [p for p in self.places if p in self.environment.known_places]
        place = self.chance.choice(known)
        path = place if self.chance.random() < 0.85 else f"{place}/$deadletterqueue"
        receiver = await self.receiver(bus, path, place)
        for _ in self.rounds(5, 60):
            messages = await self.some(receiver)
            for message in messages:
                await self.settle_somehow(receiver, message)
            await self.think(0.01)
        await receiver.close()

    async def some(self, receiver: WatchedReceiver) -> list[ReceivedMessage]:
        """What arrives within a while; unused credit is drained, or stays."""
        count = self.chance.randrange(1, 6)
        try:
            async with asyncio.timeout(0.05 + self.chance.random()):
                return await receiver.receive(count)
        except TimeoutError:
            if self.chance.random() < 0.5:
                async with asyncio.timeout(PATIENCE_S):
                    return await receiver.collect(count)
            return []

    async def settle_somehow(self, receiver: WatchedReceiver, message: ReceivedMessage) -> None:
        """Complete, abandon, dead-letter, or do nothing."""
        roll = self.chance.random()
        if roll < 0.02:
            await asyncio.sleep(self.chance.random() * 2 * self.environment.lock_us / 1_000_000)
        if roll < 0.80:
            await self.complete(receiver, message)
        elif roll < 0.90:
            await self.propose(receiver, message, MODIFIED_FAILED)
        elif roll < 0.95:
            await self.propose(receiver, message, DEAD)

    async def complete(self, receiver: WatchedReceiver, message: ReceivedMessage) -> None:
        """Settle for good, in two steps."""
        letter, copy = receiver.letter(message)
        was_asked, copy.is_asked = copy.is_asked, True
        copy.doubts += 1
        is_done = await self.propose(receiver, message, ACCEPTED)
        copy.doubts -= 1
        if is_done:
            self.ledger.done(letter, copy)
        else:
            copy.is_asked = was_asked
            self.ledger.not_done(copy)

    async def propose(
        self, receiver: WatchedReceiver, message: ReceivedMessage, outcome: bytes
    ) -> bool:
        """Request an outcome; returns whether the bus agreed. Raises when in doubt."""
        with granted(receiver) as answer:
            async with asyncio.timeout(PATIENCE_S):
                await receiver.settle([message], outcome)
        return answer.is_granted


class SlowClient(ReceivingClient):
    """Receives so rarely that some messages have expired by then."""

    kind = "slow-receiver"
    places = ("mortal",)

    async def think(self, seconds: float = 0.0) -> None:
        """Sometimes for longer than the time to live."""
        await super().think(1.5 * LIFE_MS / 1000)


class DeletingClient(ReceivingClient):
    """Receives and deletes: what is delivered is gone, and never comes twice."""

    kind = "deleter"

    async def behave(self, bus: BusClient) -> None:
        receiver = WatchedReceiver(self, bus, "fleeting", self.chance.choice((0, 5)))
        receiver.deletes = True
        await self.receiver(bus, "fleeting", "fleeting", receiver)
        for _ in self.rounds(5, 40):
            await self.some(receiver)
            await self.think(0.01)
        await receiver.close()


class TokenClient(ReceivingClient):
    """Settles by lock token over the management link, and renews locks there."""

    kind = "token-settler"
    places = ("plain", "single")

    async def behave(self, bus: BusClient) -> None:
        place = self.chance.choice([p for p in self.places if p in self.environment.known_places])
        receiver = await self.receiver(bus, place, place)
        management = await self.management(bus, place)
        for _ in self.rounds(5, 40):
            for message in await self.some(receiver):
                await self._settle(management, receiver, message)
            await self.think(0.01)
        await receiver.close()

    async def _settle(
        self, management: Management, receiver: WatchedReceiver, message: ReceivedMessage
    ) -> None:
        letter, copy = receiver.letter(message)
        token = uuid.UUID(bytes_le=message.tag)
        if self.chance.random() < 0.3:
            with granted(management):
                await management.renew_locks([token])
        if not await self.end(management, letter, copy, management.settle([token], "completed")):
            self.ledger.not_done(copy)


class DeferringClient(ReceivingClient):
    """Defers messages, and receives them later by their numbers."""

    kind = "deferrer"
    places = ("plain",)

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self._numbers: list[int] = []

    async def behave(self, bus: BusClient) -> None:
        receiver = await self.receiver(bus, "plain", "plain")
        management = await self.management(bus, "plain")
        for _ in self.rounds(5, 40):
            for message in await self.some(receiver):
                number = IncomingMessage(message.payload).sequence_number
                if await self.propose(receiver, message, MODIFIED_UNDELIVERABLE):
                    self._numbers.append(number)
                    self.ledger.totals.deferred += 1
            if self._numbers and self.chance.random() < 0.5:
                await self.take_deferred(management)
            await self.think(0.01)
        await receiver.close()

    async def take_deferred(self, management: Management) -> None:
        """Receive one by its number and complete it."""
        number = self._numbers.pop(self.chance.randrange(len(self._numbers)))
        asked_us = self.world.now_us
        try:
            found = await management.receive_deferred([number])
        except RemoteError:
            self._numbers.append(number)
            raise
        for message in found:
            letter, copy = self.ledger.arrived("plain", message.encoded, asked_us)
            assert message.lock_token is not None
            completed = management.settle([message.lock_token], "completed")
            await self.end(management, letter, copy, completed)
