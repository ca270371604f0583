"""Clients that send: to queues and topics, in sessions, scheduled, and again when in doubt.

Owns what is reported to the ledger: accepted, refused, or nothing when no answer came. Each message
is new, except from clients that rely on duplicate detection.
"""

from partibus.client.connection import BusClient
from partibus.client.management import Management
from partibus.client.message import BATCH_FORMAT, encode_batch
from partibus.simulation.clients.client import ClientEnvironment, SimulatedClient
from partibus.simulation.entities import LIFE_MS
from partibus.simulation.ledger import Letter
from partibus.simulation.world import START_MS

SESSIONS = 4


class SendingClient(SimulatedClient):
    """Sends to one entity, one message after the other or several at once."""

    kind = "sender"
    entities = ("plain",)

    async def behave(self, bus: BusClient) -> None:
        entity = self.chance.choice(self.entities)
        sender = await bus.sender(entity)
        for _ in self.rounds(5, 60):
            letter = self.write(entity)
            await self.store([letter], sender, sender.send(self.message(letter).encode()))
            await self.think()


class PublishingClient(SendingClient):
    """Sends to a topic: each subscription has its own copy."""

    kind = "publisher"
    entities = ("news",)


class ForwardedClient(SendingClient):
    """Sends to a queue whose messages are forwarded to another."""

    kind = "forwarded"
    entities = ("hop",)


class ExpiringClient(SendingClient):
    """Sends to a queue whose messages are dead-lettered if not received in time."""

    kind = "mortal-sender"
    entities = ("mortal",)

    def write(self, entity: str, *, session: str = "", size: int | None = None) -> Letter:
        letter = super().write(entity, session=session, size=size)
        letter.life_us = LIFE_MS * 1000
        return letter


class LossyClient(SendingClient):
    """Sends to a queue whose receiver chose a mode in which messages may be lost in transit."""

    kind = "fleeting-sender"
    entities = ("fleeting",)

    def write(self, entity: str, *, session: str = "", size: int | None = None) -> Letter:
        letter = super().write(entity, session=session, size=size)
        for copy in letter.copies.values():
            copy.is_expected = False
        return letter


class BatchingClient(SimulatedClient):
    """Sends batches, which are accepted or refused as a whole."""

    kind = "batcher"

    async def behave(self, bus: BusClient) -> None:
        sender = await bus.sender("single")
        while not self.environment.is_over:
            letters = [self.write("single") for _ in range(self.chance.randrange(2, 8))]
            messages = [self.message(letter) for letter in letters]
            payload = encode_batch(messages[0], [message.encode() for message in messages])
            await self.store(letters, sender, sender.send(payload, BATCH_FORMAT))
            await self.think(0.05)


class SessionSendingClient(SimulatedClient):
    """The only sender of its sessions, so that the order of each is known."""

    kind = "session-sender"

    async def behave(self, bus: BusClient) -> None:
        sender = await bus.sender("sessions")
        while not self.environment.is_over:
            session = f"{self.name}.{self.chance.randrange(SESSIONS)}"
            letter = self.write("sessions", session=session)
            await self.store([letter], sender, sender.send(self.message(letter).encode()))
            await self.think()


class RepeatingClient(SimulatedClient):
    """Sends each message until it is confirmed, some of them again much later, and relies on
    duplicate detection."""

    kind = "repeater"
    _open: Letter | None = None

    def __init__(self, environment: ClientEnvironment, number: int) -> None:
        super().__init__(environment, number)
        self._sent: list[Letter] = []

    async def behave(self, bus: BusClient) -> None:
        sender = await bus.sender("dups")
        if self._sent:  # it has lost its connection, and its position in its work
            async with self.answer():
                await sender.send(self.message(self._sent[-1]).encode())
        while not self.environment.is_over or self._open is not None:
            letter = self._open = self._open or self.write("dups")
            payload = self.message(letter).encode()
            async with self.answer():
                await sender.send(payload)
            self.ledger.accepted(letter)
            self._open = None
            self._sent.append(letter)
            if self.chance.random() < 0.4:
                again = self.chance.choice(self._sent)
                async with self.answer():
                    await sender.send(self.message(again).encode())
            await self.think()


class SchedulingClient(SimulatedClient):
    """Schedules messages, and cancels some of them."""

    kind = "scheduler"

    async def behave(self, bus: BusClient) -> None:
        management = await self.management(bus, "plain")
        while not self.environment.is_over:
            letter = self.write("plain")
            letter.due_us = self.world.now_us + self.chance.randrange(1_000, 3_000_000)
            message = self.message(letter)
            message.scheduled_ms = START_MS + letter.due_us // 1000
            numbers = await self.store([letter], management, management.schedule([message]))
            self.ledger.totals.scheduled += numbers is not None
            if numbers and self.chance.random() < 0.3:
                await self._take_back(management, letter, numbers)
            await self.think(0.05)

    async def _take_back(self, management: Management, letter: Letter, numbers: list[int]) -> None:
        copy = letter.copies["plain"]
        await self.end(management, letter, copy, management.cancel(numbers))
