"""Clients that move messages from one queue to another in transactions.

Owns what the ledger is told of each: committed, rolled back, or in doubt, when the discharge was
not answered; and those who feed the queue that is moved from.
"""

import asyncio
from typing import cast

from partibus.client.bus import Bus
from partibus.client.connection import BusClient
from partibus.client.links import ReceivedMessage
from partibus.client.transactions import Fate, Move, TransactedLinks
from partibus.simulation.clients.client import SimulatedClient
from partibus.simulation.clients.sending import SendingClient
from partibus.simulation.ledger import Copy, Letter
from partibus.simulation.ledger import Move as LedgerMove


class OpenBus:
    """What transactions need of a bus: a connection that may do everything already."""

    def __init__(self, client: BusClient) -> None:
        self.client = client

    async def authorize(self, path: str) -> None:
        """The connection came with a key."""


class MovingClient(SimulatedClient):
    """Receives from one queue and sends to another, both or neither."""

    kind = "mover"

    async def behave(self, bus: BusClient) -> None:
        links = await TransactedLinks.open(cast(Bus, OpenBus(bus)), "moves-in")
        sender = await links.sender("moves-out")
        while not self.around.is_over:
            try:
                async with asyncio.timeout(0.5):
                    received = await links.receiver.receive(self.chance.randrange(1, 4))
            except TimeoutError:
                continue
            noted = [self._note(message) for message in received]
            moves, lines = [], []
            for message, (_, copy) in zip(received, noted, strict=True):
                letter = self.write("moves-out")
                lines.append(LedgerMove(copy, letter, copy.is_asked))
                copy.is_asked = True
                moves.append(Move(message, sender, self.message(letter).encode()))
            self.ledger.moves += lines
            if self.chance.random() < 0.1:  # its locks may be lost before it goes on
                await asyncio.sleep(1.5 * self.chance.random() * self.around.lock_us / 1_000_000)
            try:
                await links.carry_out(moves)
            finally:
                for move, line, (letter, copy) in zip(moves, lines, noted, strict=True):
                    self._close(move, line, letter, copy)
            await self.think()

    def _note(self, message: ReceivedMessage) -> tuple[Letter, Copy]:
        # The bytes came a moment ago at the latest: an older time is never too strict.
        return self.ledger.arrived("moves-in", message.payload, 0)

    def _close(self, move: Move, line: LedgerMove, letter: Letter, copy: Copy) -> None:
        """What became of a transaction; one that was never discharged has not happened."""
        if move.fate is Fate.COMMITTED:
            line.fate = "committed"
            self.ledger.done(letter, copy)
            self.ledger.accepted(line.letter)
            self.ledger.totals.moves += 1
        elif move.fate in (Fate.ROLLED_BACK, Fate.OPEN):
            line.fate = "rolled back"
            copy.is_asked = line.was_asked
            self.ledger.refused(line.letter)
        else:
            line.fate = "in doubt"


class FeedingClient(SendingClient):
    """Sends what is to be moved."""

    kind = "feeder"
    entities = ("moves-in",)
