"""What a fragment can be asked to do with stages, as data.

A stage holds messages that are durable and not visible: the part of a batch that one task of a
pipeline has written. When the batch is done all of its stages are published by one change, once;
publishing a batch again has no effect. `epoch` numbers the batches, and runs, of a writer in the
order in which they began; one is refused once a later one has begun. A `series` is one numbering of
batches: a writer may have started to count again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from partibus.domain.errors import BusError
from partibus.fragment.commands import AnsweredCommand, Command
from partibus.fragment.message import NewMessage
from partibus.fragment.ports import AnswerPort, FailurePort, SendPort


@dataclass(eq=False)
class StageSummary:
    """One stage."""

    name: str
    epoch: int
    path: str
    """Where its messages are to go."""
    count: int
    byte_count: int
    touched_ms: int
    """When the last chunk was added."""


@dataclass(eq=False)
class WriterSummary:
    """What a fragment knows of one writer."""

    name: str
    epoch: int
    series: str
    """The last published batch; empty when there is none."""
    batch: int
    used_ms: int
    stages: list[StageSummary]
    leaving: int
    """Messages that are published but not in the outbox yet."""


class PublishPort(FailurePort, Protocol):
    """Where the answer to a publication goes."""

    def published(self, count: int, is_repeated: bool) -> None:
        """This many messages are published durably, now or by an earlier request."""
        ...


class WritersPort(FailurePort, Protocol):
    """Where the list of writers goes."""

    def writers_listed(self, writers: list[WriterSummary]) -> None:
        """Every writer with its stages."""
        ...


@dataclass(eq=False)
class StageMessages(Command):
    """Add a chunk to a stage; the first one creates it.

    Chunks are counted from 0. One that already exists is confirmed again and not added, so that a
    writer that got no answer may send it again.
    """

    port: SendPort
    writer: str
    epoch: int
    name: str
    path: str
    chunk: int
    messages: list[NewMessage]
    requests: list[int]
    byte_count: int

    def refuse(self, error: BusError) -> None:
        self.port.refused(self.requests, error)


@dataclass(eq=False)
class PublishStages(AnsweredCommand):
    """Publish the messages of stages, all or none; other stages of the writer become void.

    Each stage is named with the number of messages that it must have. A batch of the series at or
    below the last one that was published is not published again: its stages are dropped.
    """

    port: PublishPort
    writer: str
    series: str
    epoch: int
    batch: int
    stages: Sequence[tuple[str, int]]


@dataclass(eq=False)
class DropStages(AnsweredCommand):
    """Forget what a writer has staged up to an epoch, or only the stages that are named.

    Without an epoch, for operators: whatever the writer is doing ends. A writer that does not exist
    is an error then.
    """

    port: AnswerPort
    writer: str
    epoch: int | None
    names: Sequence[str] | None = None
    forget: bool = False
    """Forget the writer too, and which batches it has published."""


@dataclass(eq=False)
class ListWriters(AnsweredCommand):
    """List the writers and what they have staged and published."""

    port: WritersPort
