"""What streams have in common: offsets, limits, tasks.

Owns the form of an offset: a version, the generation of the entity (to notice one that was deleted
and made anew), and by fragment the number to go on from; claims add their own. What a mode does to
the bus between batches is in its subclass. Everything here but `read` runs in one process on
the driver, for as long as the query does.
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

from pyspark_servicebus.errors import DataLoss
from pyspark_servicebus.options import SourceOptions
from pyspark_servicebus.source.reading import Reading
from pyspark_servicebus.source.tasks import BusPartition, read_partition
from pyspark_servicebus.source.trigger_gate import TriggerGate

OFFSET_VERSION: Final = 1
MESSAGES_MAX: Final = 10_000_000
"""What the bus plans or claims of a fragment at a time."""
BYTES_MAX: Final = 1 << 40
Offset = dict[str, Any]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """`spark.readStream.format("servicebus")`."""

    def __init__(self, options: SourceOptions) -> None:
        self._options: SourceOptions | None = options
        self._columns = options.columns
        self._checks = options.fails_on_data_loss
        self._reading: Reading | None = Reading(options)
        self._gate: TriggerGate | None = TriggerGate(options.messages_min, options.trigger_delay_ms)

    def __getstate__(self) -> dict[str, Any]:
        # The executors get no options, and so no secret; nor any state of the driver.
        return {"_columns": self._columns, "_checks": self._checks}

    # --- what every mode needs ------------------------------------------------------------

    @property
    def options(self) -> SourceOptions:
        """The options; on the driver alone."""
        assert self._options is not None
        return self._options

    @property
    def reading(self) -> Reading:
        """The entity; on the driver alone."""
        assert self._reading is not None
        return self._reading

    def offset(self, numbers: dict[int, int], **more: object) -> Offset:
        """An offset with a number for each fragment."""
        return {
            "v": OFFSET_VERSION,
            "g": self.reading.entity.generation,
            "f": by_name(numbers),
            **more,
        }

    def fits(self, offset: Offset) -> bool:
        """Whether an offset is one of this entity, and not of one that was deleted since."""
        if offset.get("v") != OFFSET_VERSION:
            raise ValueError(f"The checkpoint has offsets of version {offset.get('v')}, not 1.")
        if offset["g"] == self.reading.refresh().generation:
            return True
        self.data_was_lost(
            f"'{self.reading.entity.path}' was deleted and created again since the checkpoint was "
            "written, so its positions mean nothing. Begin with a new checkpoint"
        )
        return False

    def data_was_lost(self, text: str) -> None:
        """End the query, unless it was asked to go on with what is there."""
        if self.options.fails_on_data_loss:
            raise DataLoss(f"{text}, or set failOnDataLoss=false to go on with what is there.")

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

    def patience_s(self, takes_what_is_there: bool) -> float:
        """How long to wait for a fragment that is away, when planning.

        A query that goes on asks again at its next trigger; one that ends when there is nothing
        more would end."""
        return self.options.patience_s if takes_what_is_there else 0.0

    def is_worth_it(self, waiting: int) -> bool:
        """Whether so many messages are enough for a batch, or have waited long enough."""
        assert self._gate is not None
        return self._gate.lets_through(waiting)

    # --- Spark's questions ----------------------------------------------------------------

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """What the options allow; the other limit is kept in `latestOffset`."""
        if self.options.messages_per_trigger is not None:
            return ReadMaxRows(self.options.messages_per_trigger)
        return ReadMaxBytes(self.options.bytes_per_trigger)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The messages of one task; in an executor, without any state of the driver."""
        if not isinstance(partition, BusPartition):
            return iter(())  # Spark has a task of its own for a read without partitions
        return read_partition(partition, self._columns, self._checks)

    def commit(self, end: Offset) -> None:
        """A batch is done; told only when the next one has begun, so `latestOffset` settles."""

    def stop(self) -> None:
        """Let the connections go; Spark does not always say it."""
        self.reading.close()


def by_name(numbers: dict[int, Any]) -> dict[str, Any]:
    """By the name of a fragment, as JSON wants it, in order."""
    return {str(index): numbers[index] for index in sorted(numbers)}


def by_index(numbers: dict[str, Any]) -> dict[int, Any]:
    """By the index of a fragment again."""
    return {int(index): number for index, number in numbers.items()}
