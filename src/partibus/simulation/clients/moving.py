"""Clients that move messages from one queue to another in transactions.

Owns what is reported to the ledger: committed, rolled back, or in doubt, when the discharge was not
answered; and the clients that feed the source queue.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import cast

from partibus.amqp.delivery import transactional_state
from partibus.client.bus import Bus
from partibus.client.connection import BusClient
from partibus.client.links import ReceivedMessage
from partibus.client.transactions import Answer, Move, TransactedLinks, TransactionOutcome
from partibus.simulation.clients.client import SimulatedClient
from partibus.simulation.clients.sending import SendingClient
from partibus.simulation.ledger import Copy, Letter
from partibus.simulation.ledger import Move as LedgerMove


class OpenBus:
    """What transactions need of a bus: a connection with all rights."""

    def __init__(self, client: BusClient) -> None:
        self.client = client

    async def authorize(self, path: str) -> None:
        """The connection came with a key."""


class SlowTransactionLinks(TransactedLinks):
    """Pauses between the work of a transaction and its end, and does the work in any order."""

    hesitate: Callable[[], Awaitable[None]]
    sends_first: Callable[[], bool]

    async def _work(self, moves: Sequence[Move], txn_ids: list[bytes]) -> list[list[Answer]]:
        if not self.sends_first():
            answers = await super()._work(moves, txn_ids)
        else:
            answers = await self._send_and_complete(moves, txn_ids)
        await self.hesitate()
        return answers

    async def _send_and_complete(
        self, moves: Sequence[Move], txn_ids: list[bytes]
    ) -> list[list[Answer]]:
        answers = []
        for move, txn_id in zip(moves, txn_ids, strict=True):
            assert move.sender is not None
            sent = await move.sender.put(move.payload, transactional_state(txn_id))
            await move.sender.answered()
            answers.append([sent, self.receiver.complete(move.message, txn_id)])
        await self.receiver.answered()
        return answers


class MovingClient(SimulatedClient):
    """Receives from one queue and sends to another, both or neither."""

    kind = "mover"

    async def behave(self, bus: BusClient) -> None:
        links = await SlowTransactionLinks.open(cast(Bus, OpenBus(bus)), "moves-in")
        assert isinstance(links, SlowTransactionLinks)
        links.hesitate = self._hesitate
        links.sends_first = lambda: self.chance.random() < 0.5
        sender = await links.sender("moves-out")
        while not self.environment.is_over:
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
            await self._hesitate()
            try:
                await links.carry_out(moves)
            finally:
                for move, line, (letter, copy) in zip(moves, lines, noted, strict=True):
                    self._close(move, line, letter, copy)
            await self.think()

    async def _hesitate(self) -> None:
        """Sometimes for so long that its locks are lost before it continues."""
        if self.chance.random() < 0.2:
            await asyncio.sleep(2 * self.chance.random() * self.environment.lock_us / 1_000_000)

    def _note(self, message: ReceivedMessage) -> tuple[Letter, Copy]:
        # The bytes arrived just now at the latest: an older time is never too strict.
        return self.ledger.arrived("moves-in", message.payload, 0)

    def _close(self, move: Move, line: LedgerMove, letter: Letter, copy: Copy) -> None:
        """Record the outcome of a transaction; one that was never discharged has not happened."""
        if move.outcome is TransactionOutcome.COMMITTED:
            line.outcome = "committed"
            self.ledger.done(letter, copy)
            self.ledger.accepted(line.letter)
            self.ledger.totals.moves += 1
        elif move.outcome in (TransactionOutcome.ROLLED_BACK, TransactionOutcome.OPEN):
            line.outcome = "rolled back"
            copy.is_asked = line.was_asked
            self.ledger.refused(line.letter)
        else:
            line.outcome = "in doubt"


class FeedingClient(SendingClient):
    """Sends the messages that are moved."""

    kind = "feeder"
    entities = ("moves-in",)

    async def think(self, seconds: float = 0.2) -> None:
        """Longer than others: moving a message takes time."""
        await super().think(seconds)
