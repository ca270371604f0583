"""Pipelines: a writer that stages and publishes batches, and readers that claim messages.

Owns the requests of Spark's sink and source, and their retries when no answer comes: a batch is
published until the bus confirms it, now or from before; a claim that was read is settled. Arrow
Flight is not simulated: a request reaches the worker of the fragment after a delay, and its answer
comes back after another, unless that worker has died meanwhile.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from partibus.domain.errors import (
    BusError,
    ClaimFenced,
    ClaimLost,
    EntityNotFound,
    StageFenced,
    StageLost,
    StoreCorrupt,
    TransientError,
)
from partibus.fragment.claims import commands as claims
from partibus.fragment.commands import Command
from partibus.fragment.cursors.commands import CursorSummary, RangePlan
from partibus.fragment.message import Held
from partibus.fragment.stages.commands import DropStages, PublishStages, StageMessages
from partibus.message.envelope import to_stored
from partibus.simulation.clients.client import SimulatedClient
from partibus.simulation.clients.sending import SendingClient
from partibus.simulation.ledger import Letter
from partibus.simulation.world import Violation

MANY = 1 << 40
ANSWER_S = 5.0
CLAIM_MS = 20_000
T = TypeVar("T")


class Reply:
    """Receives the one answer of a request, whatever its kind."""

    def __init__(self, answer: Callable[[object], None]) -> None:
        self._answer = answer

    def confirmed(
        self, requests: Sequence[int], first_sequence: int, dropped: Sequence[int] = ()
    ) -> None:
        self._answer(len(requests))

    def refused(self, requests: Sequence[int], error: BusError) -> None:
        self._answer(error)

    def published(self, count: int, is_repeated: bool) -> None:
        self._answer((count, is_repeated))

    def done(self, count: int) -> None:
        self._answer(count)

    def claimed(self, summary: claims.ClaimSummary) -> None:
        self._answer(summary)

    def found(self, messages: Sequence[Held], bodies: Sequence[bytes]) -> None:
        self._answer([(held.sequence, body) for held, body in zip(messages, bodies, strict=True)])

    def failed(self, error: BusError) -> None:
        self._answer(error)

    def placed(self, cursor: CursorSummary) -> None:
        self._answer(cursor)

    def planned(self, plan: RangePlan) -> None:
        self._answer(plan)


class PipelineClient(SimulatedClient):
    """Sends commands to fragments directly, as the bulk path does."""

    async def live(self) -> None:
        self.is_leaving = True
        try:
            while not self.environment.is_over:
                await self.batch()
                await self.think(0.2)
            await self.leave()
        except Violation as violation:
            self.violation = violation
        self.is_leaving = False

    async def batch(self) -> None:
        """One batch, to its end."""
        raise NotImplementedError

    async def leave(self) -> None:
        """Release everything."""
        raise NotImplementedError

    async def ask(self, fragment_id: int, kind: type[T], make: Callable[[Reply], Command]) -> T:
        """The answer; raises a BusError, or TimeoutError when none comes."""
        net, future = self.environment.net, asyncio.get_running_loop().create_future()

        def resolve(value: object) -> None:
            if not future.done():
                future.set_result(value)

        def answer(value: object) -> None:
            self.world.after(net.delay_us(), resolve, value)

        self.world.after(net.delay_us(), self.environment.submit, fragment_id, make(Reply(answer)))
        async with asyncio.timeout(ANSWER_S):
            value = await future
        if isinstance(value, BusError):
            raise value
        assert isinstance(value, kind)
        return value

    async def insist(self, fragment_id: int, kind: type[T], make: Callable[[Reply], Command]) -> T:
        """Repeat until the answer is something other than to retry."""
        while True:
            try:
                return await self.ask(fragment_id, kind, make)
            except (TimeoutError, TransientError, StoreCorrupt):  # what is read again may be intact
                await asyncio.sleep(0.05 + self.chance.random() * 0.3)


class StagingClient(PipelineClient):
    """Writes batches: each is staged in chunks and published once, however often it is
    requested."""

    kind = "stager"
    _batch = 0
    _epoch = 0

    async def batch(self) -> None:
        home = self.environment.homes["staged"][0]
        self._batch += 1
        letters: list[Letter] | None = None
        while letters is None and not self.environment.is_over:
            self._epoch += 1
            letters = await self._stage(home)
        if letters is not None:
            await self._publish(home, letters)

    async def _stage(self, home: int) -> list[Letter] | None:
        """The messages of a batch; None when a part failed, and then none of them may appear."""
        letters: list[Letter] = []
        for chunk in range(self.chance.randrange(1, 4)):
            some = [self.write("target") for _ in range(self.chance.randrange(1, 4))]
            letters += some
            try:
                await self.ask(home, int, partial(self._chunk, chunk, some))
            except (TimeoutError, BusError):
                for letter in letters:
                    self.ledger.refused(letter)
                return None
        return letters

    def _chunk(self, chunk: int, letters: list[Letter], port: Reply) -> Command:
        messages = [to_stored(self.message(letter).encode()) for letter in letters]
        size = sum(len(message.body) for message in messages)
        epoch, requests = self._epoch, list(range(len(messages)))
        name = f"part-{epoch}"
        return StageMessages(
            port, self.name, epoch, name, "target", chunk, messages, requests, size
        )

    async def _publish(self, home: int, letters: list[Letter]) -> None:
        stages = [(f"part-{self._epoch}", len(letters))]
        epoch, batch = self._epoch, self._batch

        def make(port: Reply) -> Command:
            return PublishStages(port, self.name, "query", epoch, batch, stages)

        try:
            await self.insist(home, tuple, make)
            if self.chance.random() < 0.2:  # a driver that has forgotten that it did
                _, is_repeated = await self.insist(home, tuple, make)
                if not is_repeated:
                    raise Violation(f"{self.name}: batch {batch} was published twice")
        except (StageLost, StageFenced) as error:
            raise Violation(
                f"{self.name}: batch {batch} was staged and cannot be published: {error.text}"
            ) from error
        for letter in letters:
            self.ledger.accepted(letter)
        self.ledger.totals.stages += 1

    async def leave(self) -> None:
        home = self.environment.homes["staged"][0]
        with contextlib.suppress(EntityNotFound):  # an earlier request, whose answer was lost
            await self.insist(home, int, lambda port: DropStages(port, self.name, None, None, True))


class ClaimingClient(PipelineClient):
    """Reads batches: claims some messages, reads them, and settles the claim."""

    kind = "claimer"
    _start = 0

    async def batch(self) -> None:
        home = self.chance.choice(self.environment.homes["claims-in"])
        self._start += 1
        start, count = str(self._start), self.chance.randrange(1, 10)
        asked_us = self.world.now_us
        try:
            await self.insist(
                home,
                claims.ClaimSummary,
                lambda port: claims.ClaimMessages(port, self.name, 1, start, count, MANY, CLAIM_MS),
            )
            bodies = await self.insist(
                home, list, lambda port: claims.ReadClaim(port, self.name, start, 0, MANY, MANY)
            )
            await self._settle(home, start, bodies, asked_us)
        except (ClaimLost, ClaimFenced):
            self.world.note(self.name, f"has lost claim {start}")

    async def _settle(
        self, home: int, start: str, bodies: list[tuple[int, bytes]], asked_us: int
    ) -> None:
        found = [self.ledger.arrived("claims-in", body, asked_us) for _, body in bodies]
        was_asked = [copy.is_asked for _, copy in found]
        for _, copy in found:
            copy.is_asked = True
        if self.chance.random() < 0.1:
            await asyncio.sleep(CLAIM_MS / 1000 * self.chance.random() * 2)
        try:
            await self.insist(home, int, lambda port: claims.SettleClaim(port, self.name, 1, start))
        except ClaimLost:
            for (_, copy), before in zip(found, was_asked, strict=True):
                copy.is_asked = before
            raise
        for letter, copy in found:
            self.ledger.done(letter, copy)
        self.ledger.totals.claims += 1

    async def leave(self) -> None:
        for home in self.environment.homes["claims-in"]:
            try:
                await self.insist(
                    home, int, lambda port: claims.ReleaseClaim(port, self.name, 1, True)
                )
            except (ClaimLost, ClaimFenced):
                continue


class ClaimFeedingClient(SendingClient):
    """Sends the messages that are claimed."""

    kind = "claim-feeder"
    entities = ("claims-in",)
