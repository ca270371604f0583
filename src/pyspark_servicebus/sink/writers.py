"""Writing messages: `df.write` and `df.writeStream` with `format("servicebus")`.

Owns what a writer checks on the driver, before any task begins, and the work of one task. A writer
is sent to the executors with tokens for the entities that it writes to, without the key. A batch is
done when the bus has confirmed that every row is durable; there is nothing to commit, unless rows
are staged: then the driver publishes what the tasks have staged (`staging`).
"""

import logging
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from partibus.domain import conditions
from pyspark_servicebus.access import Access
from pyspark_servicebus.bus import Entity, discover
from pyspark_servicebus.errors import BulkError, retried
from pyspark_servicebus.options import SinkOptions
from pyspark_servicebus.over_amqp.target import AmqpTarget, describe
from pyspark_servicebus.sink.bad_rows import bad_row_message
from pyspark_servicebus.sink.delivery import Refuse, RowMessage, Target, no_detection
from pyspark_servicebus.sink.encode import BadRow, RowEncoder
from pyspark_servicebus.sink.plan import SinkPlan, sink_plan
from pyspark_servicebus.sink.staging import Home, Staged, StagedTarget, query_series

_log: Final = logging.getLogger(__name__)


@dataclass
class Delivered(WriterCommitMessage):
    """What a task has written."""

    rows: int
    accepted: int
    duplicates: int
    bad: int
    epoch: int = 0
    series: str = ""
    """The series of the batch."""
    stages: list[Staged] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class WriterOptions:
    """The options that the executors need."""

    entity: str
    deliver: str
    bad_row_queue: str | None
    bad_row_bytes_max: int
    batch_bytes: int
    home: Home | None = None
    """Where rows are staged; None when they are sent directly."""
    epoch: int = 0
    series: str = ""
    """The series of the batch; empty in a stream, whose tasks know their query."""
    transport: str = "flight"


class Sink:
    """What writers of batches and of streams have in common."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._plan: SinkPlan = sink_plan(schema, options)
        self._transport = options.transport
        self._access: dict[str, Access] = {}
        for path in (options.entity, options.bad_row_queue):
            if path is not None:
                self._access[path] = Access(options.credentials, path, options.retry_s)
        is_staged = options.deliver == "staged"
        if self._plan.names_targets or (is_staged and options.bad_row_queue):
            self._access[""] = Access(options.credentials, "", options.retry_s)
        entity = self._found(options.entity)
        if options.deliver == "dedup" and not entity.detects_duplicates:
            raise no_detection(entity.path)
        room = self._found(options.bad_row_queue).message_bytes_max if options.bad_row_queue else 0
        home, epoch = None, 0
        if is_staged:
            access = self._access.get("") or self._access[options.entity]
            home = Home(options.entity, options.writer, access)
            epoch = home.next_epoch()
        self._options = WriterOptions(
            options.entity,
            options.deliver,
            options.bad_row_queue,
            room,
            options.batch_bytes,
            home,
            epoch,
            self._series(options),
            options.transport,
        )

    def _series(self, options: SinkOptions) -> str:
        return ""

    def _found(self, path: str) -> Entity:
        access = self._access[path]
        look = describe if self._transport == "amqp" else discover
        return retried(access.retry_s, lambda: look(access, path))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task; in an executor."""
        return TaskWrite(self._plan, self._access, self._options).run(iterator)

    def log_result(self, messages: list[WriterCommitMessage | None]) -> None:
        """Log on the driver what happened to the rows."""
        done = [message for message in messages if isinstance(message, Delivered)]
        _log.info(
            "%d rows written to '%s': %d accepted, %d of them duplicates, %d bad",
            sum(d.rows for d in done),
            self._options.entity,
            sum(d.accepted for d in done),
            sum(d.duplicates for d in done),
            sum(d.bad for d in done),
        )

    def publish(self, messages: list[WriterCommitMessage | None], batch: int) -> None:
        """Publish a staged batch, unless that was done before."""
        self.log_result(messages)
        home = self._options.home
        done = [message for message in messages if isinstance(message, Delivered)]
        stages = [(stage.name, stage.count) for message in done for stage in message.stages]
        if home is None or not stages:
            return
        answer = home.ask(
            "stage.publish",
            home.access.retry_s,
            series=done[0].series,
            epoch=done[0].epoch,
            batch=batch,
            stages=stages,
        )
        if answer["repeated"]:
            _log.info("batch %d of '%s' was published before", batch, home.writer)

    def give_up(self, messages: list[WriterCommitMessage | None]) -> None:
        """Drop what tasks have staged; the bus drops later what remains."""
        self.log_result(messages)
        home = self._options.home
        epochs = {m.epoch for m in messages if isinstance(m, Delivered) and m.stages}
        for epoch in epochs:
            assert home is not None
            try:
                home.ask("stage.drop", 0.0, epoch=epoch)
            except BulkError as error:
                _log.info("stages of '%s' were not dropped: %s", home.writer, error)


class TaskWrite:
    """One task's rows, from Spark to the bus."""

    def __init__(self, plan: SinkPlan, access: dict[str, Access], options: WriterOptions) -> None:
        self._plan = plan
        self._access = access
        self._options = options
        self._targets: dict[str, Target | StagedTarget] = {}
        self._bad_target: Target | StagedTarget | None = None
        self._series = options.series
        if options.home is not None and not options.series:
            self._series = query_series()
        self._bad: list[bytes] = []
        self._bad_count = 0

    def run(self, iterator: Iterator[pa.RecordBatch]) -> Delivered:
        encoder = RowEncoder(self._plan)
        rows = 0
        for batch in iterator:
            rows += batch.num_rows
            for number, (target, message) in enumerate(encoder.rows(batch)):
                path = target or self._options.entity
                if isinstance(message, BadRow):
                    self._refuse((batch, number, path), conditions.DECODE_ERROR, str(message))
                else:
                    self._target(path).add(RowMessage(message, (batch, number, path)))
        for known in self._targets.values():
            known.flush()
        accepted = sum(target.accepted for target in self._targets.values())
        duplicates = sum(target.duplicates for target in self._targets.values())
        if accepted + self._bad_count != rows:
            raise BulkError(
                conditions.INTERNAL_ERROR,
                f"Of {rows} rows, {accepted} were accepted and {self._bad_count} were bad: some "
                "were not answered.",
                False,
            )
        self._send_bad_rows()
        epoch, stages = self._options.epoch, self._stages()
        return Delivered(rows, accepted, duplicates, self._bad_count, epoch, self._series, stages)

    def _target(self, path: str) -> Target | StagedTarget:
        target = self._targets.get(path)
        if target is None:
            needs_ids = self._options.deliver == "dedup"
            target = self._new_target(path, needs_ids, self._refuse_message)
            self._targets[path] = target
        return target

    def _new_target(self, path: str, needs_ids: bool, refuse: Refuse) -> Target | StagedTarget:
        options = self._options
        if options.home is not None:
            return StagedTarget(path, options.home, options.epoch, options.batch_bytes, refuse)
        kind = AmqpTarget if options.transport == "amqp" else Target
        access = self._access.get(path) or self._access[""]
        return kind(path, access, options.batch_bytes, needs_ids, refuse)

    def _stages(self) -> list[Staged]:
        targets = (*self._targets.values(), self._bad_target)
        found = [target.stage for target in targets if isinstance(target, StagedTarget)]
        return [stage for stage in found if stage is not None]

    # --- rows that are not messages ------------------------------------------------------

    def _refuse_message(self, message: RowMessage, condition: str, text: str) -> None:
        self._refuse(message.origin, condition, text)

    def _refuse(self, origin: Any, condition: str, text: str) -> None:
        batch, row, path = origin
        if self._options.bad_row_queue is None:
            raise BulkError(
                condition,
                f"A row cannot be written to '{path}': {text} Correct it, or name a queue for such "
                "rows with badRowQueue.",
                False,
            )
        room = self._options.bad_row_bytes_max
        self._bad.append(bad_row_message(batch, row, path, condition, text, room))
        self._bad_count += 1
        if len(self._bad) >= 1000:
            self._send_bad_rows()

    def _send_bad_rows(self) -> None:
        path = self._options.bad_row_queue
        if not self._bad or path is None:
            return

        def fail(message: RowMessage, condition: str, text: str) -> None:
            raise BulkError(condition, f"badRowQueue '{path}' refuses a bad row: {text}", False)

        if self._bad_target is None:
            self._bad_target = self._new_target(path, False, fail)
        bad, self._bad = self._bad, []
        for payload in bad:
            self._bad_target.add(RowMessage(payload, None))
        self._bad_target.flush()


class BatchWriter(Sink, DataSourceArrowWriter):
    """`df.write.format("servicebus")`."""

    def _series(self, options: SinkOptions) -> str:
        """A job that is run again has the same batchId; without one each is new."""
        return f"batch {options.batch_id}" if options.batch_id else f"once {uuid.uuid4().hex}"

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """All tasks have written."""
        self.publish(messages, 0)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Some task failed permanently; accepted messages stay, as with any sender, except for
        those that were only staged."""
        self.give_up(messages)


class StreamWriter(Sink, DataSourceStreamArrowWriter):
    """`df.writeStream.format("servicebus")`."""

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """All tasks of a batch have written."""
        self.publish(messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Some task failed permanently; the next run writes the batch again."""
        self.give_up(messages)
