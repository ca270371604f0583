"""A fragment bench for writers that stage and publish, answered as values.

Owns the ports that turn each answer into a return value or an exception.
"""

from collections.abc import Sequence

from partibus.domain.errors import BusError
from partibus.fragment.commands import Command
from partibus.fragment.message import NewMessage
from partibus.fragment.outbox.commands import Collect, Forwarded
from partibus.fragment.outbox.state import Parcel
from partibus.fragment.stages.commands import (
    DropStages,
    ListWriters,
    PublishStages,
    StageMessages,
    WriterSummary,
)
from partibus.testing.fragment import FragmentBench

_MANY = 1 << 40


class StageReply:
    """Takes one answer of any kind."""

    def __init__(self) -> None:
        self.is_good = False
        self.count = 0
        self.is_repeated = False
        self.writers: list[WriterSummary] = []
        self.parcels: list[tuple[int, str, bytes]] = []
        self.error: BusError | None = None

    def confirmed(
        self, requests: Sequence[int], first_sequence: int, dropped: Sequence[int] = ()
    ) -> None:
        self.is_good = True

    def refused(self, requests: Sequence[int], error: BusError) -> None:
        self.error = error

    def published(self, count: int, is_repeated: bool) -> None:
        self.is_good = True
        self.count, self.is_repeated = count, is_repeated

    def done(self, count: int) -> None:
        self.is_good = True
        self.count = count

    def writers_listed(self, writers: list[WriterSummary]) -> None:
        self.writers = writers

    def collected(self, parcels: Sequence[Parcel], bodies: Sequence[bytes]) -> None:
        self.parcels = [
            (parcel.number, parcel.path, body) for parcel, body in zip(parcels, bodies, strict=True)
        ]

    def unreadable(self, parcels: Sequence[Parcel], error: BusError) -> None:
        self.error = error

    def failed(self, error: BusError) -> None:
        self.error = error


class StageBench(FragmentBench):
    """One fragment, the home of some writers."""

    def stage(
        self,
        name: str,
        *bodies: bytes,
        chunk: int = 0,
        epoch: int = 1,
        writer: str = "job",
        path: str = "goal",
    ) -> None:
        """Add a chunk to a stage."""
        messages = [NewMessage(body, -1) for body in bodies]
        size = sum(map(len, bodies))
        reply = StageReply()
        who = (writer, epoch, name, path, chunk)
        self._ask(reply, StageMessages(reply, *who, messages, [1], size))

    def publish(
        self,
        batch: int,
        *stages: tuple[str, int],
        epoch: int = 1,
        writer: str = "job",
        series: str = "query",
    ) -> tuple[int, bool]:
        """Send a batch off; answers how many messages, and whether it went before."""
        reply = StageReply()
        self._ask(reply, PublishStages(reply, writer, series, epoch, batch, stages))
        return reply.count, reply.is_repeated

    def drop(
        self,
        epoch: int | None = 1,
        names: Sequence[str] | None = None,
        writer: str = "job",
        forget: bool = False,
    ) -> int:
        """Forget what was staged."""
        reply = StageReply()
        return self._ask(reply, DropStages(reply, writer, epoch, names, forget)).count

    def writers(self) -> dict[str, WriterSummary]:
        """All writers by name."""
        reply = StageReply()
        self.submit(ListWriters(reply))
        return {writer.name: writer for writer in reply.writers}

    def parcels(self, from_number: int = 1, count: int = 1 << 30) -> list[tuple[int, str, bytes]]:
        """What a courier gets: numbers, paths and bodies."""
        reply = StageReply()
        self.submit(Collect(reply, from_number, count, _MANY))
        self.state.outbox.collector = None
        return reply.parcels

    def hand_over(self, numbers: Sequence[int]) -> None:
        """The courier has delivered these."""
        reply = StageReply()
        self._ask(reply, Forwarded(reply, list(numbers)))

    def _ask(self, reply: StageReply, command: Command) -> StageReply:
        self.submit(command)
        if reply.error is not None:
            raise reply.error
        assert reply.is_good
        return reply
