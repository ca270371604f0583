"""Rows that are staged at the bus, and published when their batch is done.

Owns `deliver=staged`: the home of a writer's stages, the stage of one task for one target, and the
publication by the driver. Chunks of a stage are numbered, so that one whose answer was lost is sent
again and added once; each attempt of a task has its own stages, and only those of the attempts that
Spark commits are published. A batch that was published before is not published again.
"""

import time
import uuid
from dataclasses import dataclass
from typing import Final

from partibus.domain import conditions
from partibus.domain.partition_key import fragment_index
from pyspark_servicebus.access import Access
from pyspark_servicebus.bus import Entity, Fields, discover
from pyspark_servicebus.errors import Backoff, BulkError, retried
from pyspark_servicebus.sink.delivery import (
    BATCHES_PER_CALL,
    Refuse,
    RowMessage,
    refuse_for_good,
    too_large,
)
from pyspark_servicebus.source.tasks import flight_of

QUERY_ID: Final = "sql.streaming.queryId"
"""The property of a task that names its query: the same for every run on one checkpoint."""


@dataclass(frozen=True, slots=True)
class Home:
    """Where the stages of a writer are: a fragment of the target entity."""

    path: str
    writer: str
    access: Access

    def location(self) -> str:
        """The worker that currently has the fragment."""
        entity = discover(self.access, self.path)
        found = entity.locations.get(fragment_index(self.writer, len(entity.locations)))
        if found is None:
            text = f"The worker with the stages of '{self.writer}' does not answer."
            raise BulkError(conditions.PARTIBUS_UNREACHABLE, text, True)
        return found

    def ask(self, action: str, retry_s: float, /, **fields: object) -> Fields:
        """Ask the worker, until the time is up."""

        def once() -> Fields:
            flight = flight_of(self.path, self.access)
            return flight.action(self.location(), action, writer=self.writer, **fields)

        return retried(retry_s, once)

    def next_epoch(self) -> int:
        """A number above those of all earlier batches of this writer."""
        known = self.ask("stage.writer", self.access.retry_s)["writer"]
        return max(0 if known is None else int(known["epoch"]) + 1, time.time_ns() // 1000)


@dataclass(frozen=True, slots=True)
class Staged:
    """A stage as left by a task."""

    name: str
    count: int


@dataclass(eq=False)
class StagedTarget:
    """One entity that a task writes to, and the stage for it."""

    path: str
    home: Home
    epoch: int
    batch_bytes: int
    refuse: Refuse

    def __post_init__(self) -> None:
        self._backoff = Backoff(self.home.access.retry_s)
        self._entity: Entity | None = None
        self._location: str | None = None
        self._name = uuid.uuid4().hex
        self._messages: list[RowMessage] = []
        self._byte_count = 0
        self._chunks: list[list[RowMessage]] = []
        """Chunks without an answer; the first has the number `_chunk`."""
        self._chunk = 0
        self.accepted = 0
        self.duplicates = 0

    @property
    def stage(self) -> Staged | None:
        """The stage to be published; None when nothing was staged."""
        return Staged(self._name, self.accepted) if self.accepted else None

    def begin(self) -> None:
        """Begin the stage without a message: from now on earlier attempts are refused."""
        self._chunks.append([])
        self._send_all()

    def add(self, message: RowMessage) -> None:
        """Add a message; many are sent at once."""
        self._messages.append(message)
        self._byte_count += len(message.payload)
        if self._byte_count >= self.batch_bytes:
            self._close_chunk()
            if len(self._chunks) >= BATCHES_PER_CALL:
                self._send_all()

    def flush(self) -> None:
        """Send what waits, and return when all of it has an outcome."""
        self._close_chunk()
        self._send_all()

    def _close_chunk(self) -> None:
        if self._messages:
            self._chunks.append(self._messages)
        self._messages, self._byte_count = [], 0

    def _send_all(self) -> None:
        self._backoff.reset()
        while self._chunks:
            try:
                self._require_room()
                self._send()
            except BulkError as error:
                self._location = None
                if error.condition == conditions.NOT_FOUND:
                    self._refuse_all(error)
                else:
                    self._backoff.wait_or_raise(error)

    def _require_room(self) -> None:
        """Remove what the target would not accept, before it is sent."""
        if self._entity is None:
            self._entity = discover(self.home.access, self.path)
        most = self._entity.message_bytes_max
        for chunk in self._chunks:
            large = [message for message in chunk if len(message.payload) > most]
            for message in large:
                chunk.remove(message)
                refuse_for_good(self.refuse, message, *too_large(message, self._entity))

    def _send(self) -> None:
        if self._location is None:
            self._location = self.home.location()
        flight = flight_of(self.home.path, self.home.access)
        payloads = [[message.payload for message in chunk] for chunk in self._chunks]
        answers = flight.put(
            self._location,
            payloads,
            deliver="staged",
            writer=self.home.writer,
            epoch=self.epoch,
            stage=self._name,
            chunk=self._chunk,
            target=self.path,
        )
        for answer in answers:
            chunk = self._chunks.pop(0)
            self._chunk += 1
            self.accepted += answer["accepted"]
            self._backoff.reset()
            for row, condition, text, _ in answer["refused"]:
                refuse_for_good(self.refuse, chunk[row], condition, text)

    def _refuse_all(self, error: BulkError) -> None:
        """A missing entity that a row names is the row's fault."""
        chunks, self._chunks = self._chunks, []
        for chunk in chunks:
            for message in chunk:
                refuse_for_good(self.refuse, message, error.condition, error.text)


def query_series() -> str:
    """The series of the batches of this task's query."""
    from pyspark import TaskContext

    context = TaskContext.get()
    query = None if context is None else context.getLocalProperty(QUERY_ID)
    if query is None:
        raise BulkError(
            conditions.NOT_IMPLEMENTED,
            "deliver=staged: Spark does not say which query this is, so its batches cannot be "
            "distinguished. Write deliver=dedup.",
            False,
        )
    return query
