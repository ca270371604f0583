"""What streams have in common: resuming from an offset, limits, tasks.

Owns the check that a checkpoint belongs to the entity as it is now, and what happens when it does
not. What a mode does to the bus between batches is in its subclass; the form of offsets is in
`offsets`. Everything here but `read` runs in one process on the driver, for as long as the query
does.
"""

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from pyspark_servicebus.errors import DataLoss, LossAdvice
from pyspark_servicebus.options import SourceOptions
from pyspark_servicebus.source.offsets import Offset, SourceOffset
from pyspark_servicebus.source.reading import Reading
from pyspark_servicebus.source.tasks import read_task
from pyspark_servicebus.source.trigger_gate import TriggerGate

MESSAGES_MAX: Final = 10_000_000
"""What the bus plans or claims of a fragment at a time."""
BYTES_MAX: Final = 1 << 40


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """`spark.readStream.format("servicebus")`."""

    def __init__(
        self,
        options: SourceOptions,
        reading: Reading | None = None,
        advice: LossAdvice = LossAdvice(),  # noqa: B008 - it is immutable
    ) -> None:
        self.options = options
        """Only on the driver, as is the entity."""
        self.reading = reading or Reading(options)
        self._columns = options.columns
        self._checks = options.fails_on_data_loss
        self._advice = advice
        self._takes_what_is_there = False
        """Whether it is an availableNow run."""
        self._gate = TriggerGate(options.messages_min, options.trigger_delay_ms)

    def __getstate__(self) -> dict[str, Any]:
        # The executors get no options, and so no secrets; nor any state of the driver.
        return {"_columns": self._columns, "_checks": self._checks, "_advice": self._advice}

    # --- what every mode needs ------------------------------------------------------------

    @property
    def entity_id(self) -> int:
        """The id of the entity, as last reported by the bus."""
        return self.reading.entity.entity_id

    def resume(self, written: Offset) -> SourceOffset | None:
        """Ask the bus for the entity again, and read an offset of the checkpoint.

        None when the offset belongs to an entity that was deleted and created again, unless that
        ends the query.
        """
        offset = SourceOffset.from_json(written)
        if offset.entity_id == self.reading.refresh().entity_id:
            return offset
        path = self.reading.entity.path
        self.data_was_lost(
            "ENTITY_RECREATED",
            f"'{path}' was deleted and created again since the checkpoint was written, so its "
            "positions mean nothing.",
            entity=path,
        )
        return None

    def data_was_lost(
        self, kind: str, what: str, remedy: str | None = None, **parameters: object
    ) -> None:
        """End the query, unless it was configured to continue with what is there."""
        if self.options.fails_on_data_loss:
            remedy = remedy or self._advice.restart
            raise DataLoss(kind, what, remedy, self._advice, **parameters)

    def limits(self, limit: ReadLimit) -> tuple[int, int]:
        """Messages and bytes that a batch may have."""
        options = self.options
        if isinstance(limit, ReadAllAvailable):
            return MESSAGES_MAX, BYTES_MAX
        messages = options.messages_per_trigger or MESSAGES_MAX
        byte_count = options.bytes_per_trigger
        if isinstance(limit, ReadMaxRows):
            messages = min(messages, limit.max_rows)
        elif isinstance(limit, ReadMaxBytes):
            byte_count = min(byte_count, limit.max_bytes)
        return messages, byte_count

    @property
    def retry_s(self) -> float:
        """How long to wait for an unreachable fragment when planning.

        A continuous query tries again at its next trigger; one that ends when nothing waits would
        end without it.
        """
        return self.options.retry_s if self._takes_what_is_there else 0.0

    def is_worth_it(self, waiting: int) -> bool:
        """Whether this many messages are enough for a batch, or have waited long enough."""
        return self._gate.lets_through(waiting)

    # --- Spark's questions ----------------------------------------------------------------

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Take no more than what is there now."""
        self._takes_what_is_there = True
        self.reading.refresh()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """What the options allow; the other limit is kept in `latestOffset`."""
        if self.options.messages_per_trigger is not None:
            return ReadMaxRows(self.options.messages_per_trigger)
        return ReadMaxBytes(self.options.bytes_per_trigger)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The messages of one task; in an executor, without any state of the driver."""
        return read_task(partition, self._columns, self._advice if self._checks else None)

    def commit(self, end: Offset) -> None:
        """A batch is done; Spark calls this only when the next has begun, so `latestOffset`
        settles."""

    def stop(self) -> None:
        """Close the connections; Spark does not always call this."""
        self.reading.close()
