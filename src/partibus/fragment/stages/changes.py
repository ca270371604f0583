"""What is prepared about stages, until it is durable.

Owns the changes that the commands about stages make: each has its records and what is needed to
carry it out or to undo it. Made and finished by `behaviour` and `departures`.
"""

from dataclasses import dataclass

from partibus.fragment.changes import Change
from partibus.fragment.ports import AnswerPort
from partibus.fragment.stages.commands import PublishPort, PublishStages, StageMessages
from partibus.fragment.stages.state import Stage, Writer


@dataclass(eq=False)
class StageArrival(Change):
    """A chunk of a stage; without messages of its own when it already exists."""

    command: StageMessages
    stage: Stage
    first_place: int
    staged_ms: int
    is_repeated: bool


@dataclass(eq=False)
class StagePublication(Change):
    """Stages are being sent; the others of their writer are void."""

    command: PublishStages
    writer: Writer
    published: list[Stage]
    dropped: list[Stage]
    published_ms: int


@dataclass(eq=False)
class StageDrop(Change):
    """Stages are gone."""

    writer: Writer | None
    """Their writer; None when they are abandoned."""
    stages: list[Stage]
    closed_epoch: int
    forget: bool = False
    port: AnswerPort | None = None
    publish_port: PublishPort | None = None
    """Of a batch that was already published."""


@dataclass(eq=False)
class StageDeparture(Change):
    """Messages of the next published stage enter the outbox."""

    stage: Stage
    count: int
    first_number: int
