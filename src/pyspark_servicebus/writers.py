"""Writing messages: `df.write` and `df.writeStream` with `format("servicebus")`.

Owns what a writer checks on the driver, before any task begins, and the work of one task. A writer
travels to the executors with tokens for the entities that it writes to, and without the key. A
batch is done when the bus has said of every row that it is durable; there is nothing to commit.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from pyspark_servicebus.access import Access
from pyspark_servicebus.bad_rows import bad_row_message
from pyspark_servicebus.bus import Entity, discover
from pyspark_servicebus.delivery import Letter, Target, no_detection
from pyspark_servicebus.encode import BadRow, RowEncoder
from pyspark_servicebus.errors import BulkError, Patience
from pyspark_servicebus.options import SinkOptions
from pyspark_servicebus.sink_plan import SinkPlan, sink_plan

NO_MESSAGE: Final = "amqp:decode-error"
_log: Final = logging.getLogger(__name__)


@dataclass
class Delivered(WriterCommitMessage):
    """What a task has written."""

    rows: int
    accepted: int
    duplicates: int
    bad: int


@dataclass(frozen=True, slots=True)
class Terms:
    """What the executors are told of the options."""

    entity: str
    deliver: str
    bad_row_queue: str | None
    bad_row_bytes_max: int
    batch_bytes: int


class Sink:
    """What writers of batches and of streams have in common."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._plan: SinkPlan = sink_plan(schema, options)
        self._access: dict[str, Access] = {}
        for path in (options.entity, options.bad_row_queue):
            if path is not None:
                self._access[path] = Access(options.credentials, path, options.patience_s)
        if self._plan.names_targets:
            self._access[""] = Access(options.credentials, "", options.patience_s)
        entity = self._found(options.entity)
        if options.deliver == "dedup" and not entity.detects_duplicates:
            raise no_detection(entity.path)
        room = self._found(options.bad_row_queue).message_bytes_max if options.bad_row_queue else 0
        self._terms = Terms(
            options.entity, options.deliver, options.bad_row_queue, room, options.batch_bytes
        )

    def _found(self, path: str) -> Entity:
        access = self._access[path]
        patience = Patience(access.patience_s)
        while True:
            try:
                return discover(access, path)
            except BulkError as error:
                patience.bear(error)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task; in an executor."""
        return TaskWrite(self._plan, self._access, self._terms).run(iterator)

    def tell(self, messages: list[WriterCommitMessage | None]) -> None:
        """Note in the log of the driver what became of the rows."""
        done = [message for message in messages if isinstance(message, Delivered)]
        _log.info(
            "%d rows written to '%s': %d accepted, %d of them duplicates, %d bad",
            sum(d.rows for d in done),
            self._terms.entity,
            sum(d.accepted for d in done),
            sum(d.duplicates for d in done),
            sum(d.bad for d in done),
        )


class TaskWrite:
    """One task's rows, from Spark to the bus."""

    def __init__(self, plan: SinkPlan, access: dict[str, Access], terms: Terms) -> None:
        self._plan = plan
        self._access = access
        self._terms = terms
        self._targets: dict[str, Target] = {}
        self._bad: list[tuple[Any, str, str, str]] = []
        self._bad_count = 0

    def run(self, iterator: Iterator[pa.RecordBatch]) -> Delivered:
        encoder = RowEncoder(self._plan)
        rows = 0
        for batch in iterator:
            rows += batch.num_rows
            for number, (target, message) in enumerate(encoder.rows(batch)):
                path = target or self._terms.entity
                if isinstance(message, BadRow):
                    self._refuse((batch, number, path), NO_MESSAGE, str(message))
                else:
                    self._target(path).add(Letter(message, (batch, number, path)))
        for known in self._targets.values():
            known.flush()
        accepted = sum(target.accepted for target in self._targets.values())
        duplicates = sum(target.duplicates for target in self._targets.values())
        if accepted + self._bad_count != rows:
            raise BulkError(
                "amqp:internal-error",
                f"Of {rows} rows {accepted} were accepted and {self._bad_count} were bad: some "
                "have no answer.",
                False,
            )
        self._send_bad_rows()
        return Delivered(rows, accepted, duplicates, self._bad_count)

    def _target(self, path: str) -> Target:
        target = self._targets.get(path)
        if target is None:
            access = self._access.get(path) or self._access[""]
            needs_ids = self._terms.deliver == "dedup"
            refuse = self._refuse_letter
            target = Target(path, access, self._terms.batch_bytes, needs_ids, refuse)
            self._targets[path] = target
        return target

    # --- rows that are no messages --------------------------------------------------------

    def _refuse_letter(self, letter: Letter, condition: str, text: str) -> None:
        self._refuse(letter.origin, condition, text)

    def _refuse(self, origin: Any, condition: str, text: str) -> None:
        batch, row, path = origin
        if self._terms.bad_row_queue is None:
            raise BulkError(
                condition,
                f"A row cannot be written to '{path}': {text} Correct it, or name a queue for such "
                "rows with badRowQueue.",
                False,
            )
        room = self._terms.bad_row_bytes_max
        payload = bad_row_message(batch, row, path, condition, text, room)
        self._bad.append((payload, path, condition, text))
        self._bad_count += 1
        if len(self._bad) >= 1000:
            self._send_bad_rows()

    def _send_bad_rows(self) -> None:
        path = self._terms.bad_row_queue
        if not self._bad or path is None:
            return

        def fail(letter: Letter, condition: str, text: str) -> None:
            raise BulkError(condition, f"badRowQueue '{path}' refuses a bad row: {text}", False)

        target = Target(path, self._access[path], self._terms.batch_bytes, False, fail)
        bad, self._bad = self._bad, []
        for payload, *_ in bad:
            target.add(Letter(payload, None))
        target.flush()


class BatchWriter(Sink, DataSourceArrowWriter):
    """`df.write.format("servicebus")`."""

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """All tasks have written."""
        self.tell(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Some task failed for good; what was accepted stays, as with any sender."""
        self.tell(messages)


class StreamWriter(Sink, DataSourceStreamArrowWriter):
    """`df.writeStream.format("servicebus")`."""

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """All tasks of a batch have written."""
        self.tell(messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Some task failed for good; the batch is written again by the next run."""
        self.tell(messages)
