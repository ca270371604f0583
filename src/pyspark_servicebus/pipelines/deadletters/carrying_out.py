"""Rules carried out on one dead-letter queue: each message in a separate transaction.

Owns how a dead letter gets from its queue to where a rule sends it. Sending and completing are one
transaction, so whatever crashes, a message is in one of the two places and never in both or none.
Unknown outcomes are looked up when the bus is back: a dead letter that is gone was moved. Only
selected messages are touched; the rest is released.
"""

import asyncio
import contextlib
import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from partibus.client.bus import Bus
from partibus.client.connection_string import ConnectionString
from partibus.client.errors import RemoteError
from partibus.client.links import ReceivedMessage
from partibus.client.message import IncomingMessage
from partibus.client.transactions import Move, TransactedLinks, TransactionOutcome
from partibus.domain import conditions
from partibus.domain.sequence import fragment_of
from pyspark_servicebus.pipelines.deadletters.rewriting import Destination, NotFixable, rewritten
from pyspark_servicebus.pipelines.deadletters.rules import Rule

ROUND_MESSAGES_MAX: Final = 100
"""Locked at a time: few, since a killed run leaves them locked for a while."""
PEEK_MESSAGES: Final = 250
STALLED_PAUSE_S: Final = 0.5
FIRST_PAUSE_S: Final = 0.2
PAUSE_S_MAX: Final = 2.0
PROBLEMS_MAX: Final = 20
LAPSES_MAX: Final = 3
_FINAL: Final = (conditions.NOT_FOUND, conditions.UNAUTHORIZED_ACCESS, conditions.NOT_ALLOWED)
Advance = Callable[[int], None]


@dataclass(slots=True, kw_only=True)
class Outcome:
    """The outcomes for the dead letters of one entity, by the index of the rule."""

    entity: str
    done: Counter[int] = field(default_factory=Counter)
    failed: Counter[int] = field(default_factory=Counter)
    gone: Counter[int] = field(default_factory=Counter)
    """Taken by others between the read and the move."""
    held: Counter[int] = field(default_factory=Counter)
    """Still locked by another receiver at the end."""
    problems: list[str] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class EntityWork:
    """The dead letters of one entity that rules match."""

    entity: str
    wanted: dict[int, int]
    """The rule of each message, by its sequence number; handled ones are removed."""
    rules: Sequence[Rule]
    goals: Mapping[int, Destination]
    """Where the rules send, by index; rules that only complete are missing."""
    wait_s: float
    """How long to wait for messages that another receiver has locked."""
    retry_s: float
    """How long to wait for a bus that is unreachable."""
    advance: Advance = lambda count: None
    fragments_up: Callable[[], set[int]] | None = None
    """The fragments that answer now: a peek at the others shows nothing, and proves nothing. None
    means all."""
    outcome: Outcome = field(init=False)
    _doubtful: set[int] = field(init=False, default_factory=set)
    _lapses: Counter[int] = field(init=False, default_factory=Counter)

    def __post_init__(self) -> None:
        self.outcome = Outcome(entity=self.entity)

    @property
    def path(self) -> str:
        return f"{self.entity}/$DeadLetterQueue"

    async def run(self, place: ConnectionString, ca_file: str | None) -> Outcome:
        """Carry the rules out until nothing is left to do; waits for an unreachable bus."""
        loop, pause_s = asyncio.get_running_loop(), FIRST_PAUSE_S
        deadline, left = loop.time() + self.retry_s, len(self.wanted)
        while self.wanted:
            try:
                async with Bus.open(place, ca_file=ca_file) as bus:
                    await self._session(bus)
                    return self.outcome
            except (OSError, RemoteError, TimeoutError) as error:
                if len(self.wanted) < left:
                    deadline, pause_s = loop.time() + self.retry_s, FIRST_PAUSE_S
                    left = len(self.wanted)
                is_final = isinstance(error, RemoteError) and error.condition in _FINAL
                if is_final or loop.time() + pause_s > deadline:
                    self._give_up(error)
                    return self.outcome
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, PAUSE_S_MAX)
        return self.outcome

    def _give_up(self, error: Exception) -> None:
        self._complain(str(error) or type(error).__name__)
        for number in list(self.wanted):
            self._note(number, self.outcome.failed)

    # --- one connection -------------------------------------------------------------------

    async def _session(self, bus: Bus) -> None:
        if self._doubtful:
            await self._look(bus)
        links = await TransactedLinks.open(bus, self.path)
        passed: list[ReceivedMessage] = []
        try:
            await self._rounds(bus, links, passed)
        finally:
            links.receiver.release(passed)
            await asyncio.sleep(0)

    async def _rounds(
        self, bus: Bus, links: TransactedLinks, passed: list[ReceivedMessage]
    ) -> None:
        """Rounds of messages; when nothing comes, locks of others may still lapse."""
        loop, known = asyncio.get_running_loop(), set[int]()
        stalled_at: float | None = None
        while self.wanted:
            found = [(m, _seen(m)) for m in await links.receiver.collect(ROUND_MESSAGES_MAX)]
            mine = [(m, seen) for m, seen in found if seen.sequence_number in self.wanted]
            others = [(m, seen) for m, seen in found if seen.sequence_number not in self.wanted]
            is_new = any(seen.sequence_number not in known for _, seen in others)
            known.update(seen.sequence_number for _, seen in others)
            passed += [m for m, _ in others]
            if mine:
                await self._round(bus, links, mine)
            if mine or is_new:
                stalled_at = None
                continue
            if stalled_at is None:
                stalled_at = loop.time()
                await self._look(bus)
            elif loop.time() - stalled_at >= self.wait_s:
                await self._look(bus)
                for number in list(self.wanted):
                    self._note(number, self.outcome.held)
                return
            else:
                await asyncio.sleep(STALLED_PAUSE_S)

    async def _round(
        self,
        bus: Bus,
        links: TransactedLinks,
        found: Sequence[tuple[ReceivedMessage, IncomingMessage]],
    ) -> None:
        """Move what was received; each in a separate transaction."""
        moves: dict[int, Move] = {}
        refused: list[ReceivedMessage] = []
        for message, seen in found:
            try:
                moves[seen.sequence_number] = await self._move(links, message, seen)
            except NotFixable as problem:
                refused.append(message)
                self._complain(f"message {seen.sequence_number}: {problem}")
                self._note(seen.sequence_number, self.outcome.failed)
        try:
            await links.carry_out(list(moves.values()))
        finally:
            for number, move in moves.items():
                self._judge(number, move, refused)
        await self._give_back(bus, refused)

    async def _move(
        self, links: TransactedLinks, message: ReceivedMessage, seen: IncomingMessage
    ) -> Move:
        index = self.wanted[seen.sequence_number]
        goal = self.goals.get(index)
        if goal is None:
            return Move(message, None)
        rule, now_ms = self.rules[index], round(time.time() * 1000)
        payload = rewritten(seen, rule, self.entity, goal, now_ms)
        return Move(message, await links.sender(goal.path), payload)

    def _judge(self, number: int, move: Move, refused: list[ReceivedMessage]) -> None:
        if move.outcome is TransactionOutcome.COMMITTED:
            self._note(number, self.outcome.done)
        elif move.outcome is TransactionOutcome.ROLLED_BACK and self._comes_again(number, move):
            pass
        elif move.outcome is TransactionOutcome.ROLLED_BACK:
            refused.append(move.message)
            self._complain(f"message {number}: {move.error.description if move.error else ''}")
            self._note(number, self.outcome.failed)
        elif move.outcome is TransactionOutcome.IN_DOUBT:
            self._doubtful.add(number)

    def _comes_again(self, number: int, move: Move) -> bool:
        """Whether it only took longer than the lock: then the message is received again."""
        if move.error is None or move.error.condition != conditions.MICROSOFT_MESSAGE_LOCK_LOST:
            return False
        self._lapses[number] += 1
        return self._lapses[number] < LAPSES_MAX

    async def _give_back(self, bus: Bus, messages: Sequence[ReceivedMessage]) -> None:
        """Release locks by their tokens, as a rolled-back transaction leaves them."""
        if messages:
            tokens = [uuid.UUID(bytes_le=message.tag) for message in messages]
            management = await bus.management(self.path)
            with contextlib.suppress(RemoteError):
                await management.settle(tokens, "abandoned")
            await management.close()

    # --- what is left -----------------------------------------------------------------------

    async def _look(self, bus: Bus) -> None:
        """Check which messages still exist: of the missing ones, those in doubt were moved by us,
        the others by another receiver."""
        up = await self._up()
        there = await self._numbers(bus)
        still_up = await self._up()
        for number in [n for n in self.wanted if n not in there]:
            fragment = fragment_of(number)
            if up is None or (still_up is not None and fragment in up & still_up):
                is_ours = number in self._doubtful
                self._note(number, self.outcome.done if is_ours else self.outcome.gone)
        self._doubtful &= self.wanted.keys()

    async def _up(self) -> set[int] | None:
        return None if self.fragments_up is None else await asyncio.to_thread(self.fragments_up)

    async def _numbers(self, bus: Bus) -> set[int]:
        """The dead letters that a peek returns."""
        there: set[int] = set()
        management, number = await bus.management(self.path), 0
        while page := await management.peek(number, PEEK_MESSAGES):
            there.update(message.sequence_number for message in page)
            number = page[-1].sequence_number + 1
        await management.close()
        return there

    def _note(self, number: int, count: Counter[int]) -> None:
        count[self.wanted.pop(number)] += 1
        self.advance(1)

    def _complain(self, text: str) -> None:
        if len(self.outcome.problems) < PROBLEMS_MAX:
            self.outcome.problems.append(f"{self.entity}: {text}")


def _seen(message: ReceivedMessage) -> IncomingMessage:
    return IncomingMessage(message.payload)


async def carry_out(
    works: Sequence[EntityWork], place: ConnectionString, ca_file: str | None, side_by_side: int
) -> list[Outcome]:
    """The work on several entities, some of them in parallel."""
    turns = asyncio.Semaphore(side_by_side)

    async def one(work: EntityWork) -> Outcome:
        async with turns:
            return await work.run(place, ca_file)

    return list(await asyncio.gather(*map(one, works)))
