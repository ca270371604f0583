"""What is prepared about stages, until it is durable.

Owns the changes that the commands about stages make: each has its records and what is needed to
carry it out or to take it back. Made and finished by `staging` and `stage_departures`.
"""

from partibus.fragment.changes import Change
from partibus.fragment.ports import AnswerPort
from partibus.fragment.stages.commands import PublishPort, PublishStages, StageMessages
from partibus.fragment.stages.state import Stage, Writer
from partibus.store.record import Record


class StageArrival(Change):
    """A chunk of a stage; without messages of its own when it is there already."""

    __slots__ = ("command", "first_place", "is_repeated", "stage", "staged_ms")

    def __init__(
        self,
        records: list[Record],
        command: StageMessages,
        stage: Stage,
        first_place: int,
        staged_ms: int,
        is_repeated: bool,
    ) -> None:
        self.records = records
        self.command = command
        self.stage = stage
        self.first_place = first_place
        self.staged_ms = staged_ms
        self.is_repeated = is_repeated


class StagePublication(Change):
    """Stages are on their way; the others of their writer are void."""

    __slots__ = ("command", "dropped", "published", "published_ms", "writer")

    def __init__(
        self,
        records: list[Record],
        command: PublishStages,
        writer: Writer,
        published: list[Stage],
        dropped: list[Stage],
        published_ms: int,
    ) -> None:
        self.records = records
        self.command = command
        self.writer = writer
        self.published = published
        self.dropped = dropped
        self.published_ms = published_ms


class StageDrop(Change):
    """Stages are gone."""

    __slots__ = ("closed_epoch", "forget", "port", "publish_port", "stages", "writer")

    def __init__(
        self,
        records: list[Record],
        writer: Writer | None,
        stages: list[Stage],
        closed_epoch: int,
    ) -> None:
        self.records = records
        self.writer = writer
        """Whose they are; None where they are abandoned."""
        self.stages = stages
        self.closed_epoch = closed_epoch
        self.forget = False
        self.port: AnswerPort | None = None
        self.publish_port: PublishPort | None = None
        """Of a batch that had been published before."""


class StageDeparture(Change):
    """Messages of the published stage that is next enter the outbox."""

    __slots__ = ("count", "first_number", "stage")

    def __init__(self, records: list[Record], stage: Stage, count: int, first_number: int) -> None:
        self.records = records
        self.stage = stage
        self.count = count
        self.first_number = first_number
