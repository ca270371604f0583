"""A reader with cursors, like Spark's source: it reads and removes nothing.

Owns the guarantees of a cursor: from its position on, everything that was accepted is read, in
order, once and identically every time, whatever receivers do meanwhile. A batch is a range of
numbers; the cursor is moved past it when the batch is done, and a batch with an unknown outcome is
read again.
"""

from dataclasses import dataclass, field
from functools import partial

from partibus.fragment.commands import SubQueueType
from partibus.fragment.cursors import commands as cursors
from partibus.simulation.clients.client import ClientEnvironment
from partibus.simulation.clients.pipelines import MANY, PipelineClient
from partibus.simulation.world import Violation

PLACE = "plain"
RETAIN_MS = 1 << 40
"""Nothing is discarded by age, whatever the clocks do."""
MESSAGES_MAX = 20


@dataclass(slots=True)
class Progress:
    """How far the reader is at one fragment."""

    home: int
    position: int
    last: int = 0
    """The number of the last message that was read."""
    read: list[int] = field(default_factory=list)


class CursorClient(PipelineClient):
    """Reads everything that arrives at a queue from some time on."""

    kind = "cursor-reader"

    def __init__(self, environment: ClientEnvironment, number: int) -> None:
        super().__init__(environment, number)
        self._progress: list[Progress] = []
        self._since_us = 0

    async def batch(self) -> None:
        if not self._progress:
            self._progress = [await self._begin(home) for home in self.environment.homes[PLACE]]
            self._since_us = self.world.now_us
        await self._advance(self.chance.choice(self._progress))

    async def _begin(self, home: int) -> Progress:
        """Place a cursor after everything that is there."""
        return Progress(home, await self._place(home, MANY))

    async def _place(self, home: int, position: int) -> int:
        found = await self.insist(
            home,
            cursors.CursorSummary,
            lambda port: cursors.PlaceCursor(port, self.name, position, RETAIN_MS, MANY),
        )
        return found.position

    async def _advance(self, progress: Progress) -> cursors.RangePlan:
        """Read the next range, perhaps twice, and move the cursor past it."""
        home, start, count = progress.home, progress.position, self.chance.randrange(1, 9)
        plan = await self.insist(
            home,
            cursors.RangePlan,
            lambda port: cursors.PlanRange(port, SubQueueType.MAIN, start, count, MANY),
        )
        if plan.end == start:
            return plan
        numbers = await self._read(home, start, plan.end)
        if self.chance.random() < 0.2 and await self._read(home, start, plan.end) != numbers:
            raise Violation(f"{self.name}: {start} to {plan.end} of {home} differs when reread")
        for sequence, number in numbers:
            if sequence <= progress.last:
                raise Violation(f"{self.name}: message {number} was read after a later one")
            progress.last = sequence
            progress.read.append(number)
        progress.position = await self._place(home, plan.end)
        if progress.position != plan.end:
            raise Violation(f"{self.name} is at {progress.position} and was placed at {plan.end}")
        self.ledger.totals.ranges += 1
        return plan

    async def _read(self, home: int, start: int, end: int) -> list[tuple[int, int]]:
        """(sequence number, message) of a range."""
        found: list[tuple[int, int]] = []
        while start < end:
            make = partial(
                cursors.ReadRange, subqueue=SubQueueType.MAIN, from_sequence=start, to_sequence=end
            )
            some = await self.insist(
                home, list, partial(make, count_max=MESSAGES_MAX, byte_count_max=MANY)
            )
            for sequence, body in some:
                found.append((sequence, self.ledger.read_along(PLACE, body).number))
                start = sequence + 1
            if not some:
                break
        return found

    async def leave(self) -> None:
        """Read to the end, check that nothing is missing, and drop the cursors."""
        if not self._progress:
            return
        until_us = self.world.now_us
        for progress in self._progress:
            while True:
                plan = await self._advance(progress)
                if plan.end == plan.next_sequence:
                    break
        self._see_that_all_came(until_us)
        for progress in self._progress:
            home = progress.home
            await self.insist(home, int, lambda port: cursors.DropCursor(port, self.name))

    def _see_that_all_came(self, until_us: int) -> None:
        read = [number for progress in self._progress for number in progress.read]
        if len(set(read)) != len(read):
            raise Violation(f"{self.name} has read a message twice")
        seen = set(read)
        for letter in self.ledger.letters:
            was_there = PLACE in letter.copies and letter.is_accepted and not letter.due_us
            is_ours = self._since_us < letter.sent_us and letter.accepted_us <= until_us
            if was_there and is_ours and letter.number not in seen:
                raise Violation(
                    f"message {letter.number} was accepted at {letter.accepted_us} us and "
                    f"{self.name}, which has read since {self._since_us} us, never got it"
                )
