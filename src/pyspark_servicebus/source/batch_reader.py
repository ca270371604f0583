"""A batch read: what is there now, or what a cursor has not passed.

Owns `spark.read`: a snapshot of every fragment at the moment of planning, of one entity or of all
that match a pattern. Nothing is locked, moved or settled; what others receive meanwhile may be
missing, unless a cursor keeps it. A fragment that cannot be read is an error, unless
failOnDataLoss=false. Spark refuses a reader with filter pushdown unless it is configured, so that
is a separate class. What all batch reads send to the executors is here, too.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from partibus.domain.sequence import NUMBERS_END
from pyspark_servicebus.access import Access
from pyspark_servicebus.entities import matching_entities
from pyspark_servicebus.errors import LossAdvice
from pyspark_servicebus.options import SourceOptions
from pyspark_servicebus.source.planning import Slice
from pyspark_servicebus.source.positions import ending_positions, positions_at, starting_positions
from pyspark_servicebus.source.pushdown import Pushed
from pyspark_servicebus.source.reading import Answers, Reading, good, require
from pyspark_servicebus.source.selection import TIME_MS_MAX
from pyspark_servicebus.source.tasks import plan_tasks_of, read_task


class TaskReader(DataSourceReader):
    """A reader whose `partitions` are planned on the driver, with the options."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        """Only on the driver."""
        self._columns = options.columns
        self._advice: LossAdvice | None = None
        """What to do about missing messages; None where they are no error."""

    def __getstate__(self) -> dict[str, Any]:
        # The executors get no options, and so no secrets.
        return {"_columns": self._columns, "_advice": self._advice}

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The messages of one task."""
        return read_task(partition, self._columns, self._advice)


class BatchReader(TaskReader):
    """`spark.read.format("servicebus")`."""

    def __init__(self, options: SourceOptions) -> None:
        super().__init__(options)
        if options.fails_on_data_loss and options.mode == "cursor":
            self._advice = LossAdvice()
        self._pushed = Pushed(options.selection)

    def partitions(self) -> Sequence[InputPartition]:
        """One or more slices per fragment, grouped into tasks."""
        options = replace(self.options, selection=self._pushed.selection)
        if options.selection.is_nothing:
            return []
        readings = _readings(options)
        try:
            readings[0].check_filter()
            slices = [part for reading in readings for part in self._slices(reading)]
            ticket = {"mode": "range", "sub_queue": options.sub_queue}
            return plan_tasks_of(readings, slices, ticket)
        finally:
            for reading in readings:
                reading.close()

    def _slices(self, reading: Reading) -> list[Slice]:
        """The wanted messages of one entity."""
        starts, ends = self._bounds(reading)
        path, slices = reading.entity.path, []
        for index, plan in self._plans(reading, starts).items():
            first, last = starts[index], min(plan["end"], ends.get(index, plan["end"]))
            count = plan["count"] if last == plan["end"] else -1
            if plan["count"] and first < last:
                slices.append(Slice(index, first, last, count, plan["bytes"], path))
        return slices

    def _bounds(self, reading: Reading) -> tuple[dict[int, int], dict[int, int]]:
        """The start and end positions of the wanted fragments."""
        starts, ends = starting_positions(reading), ending_positions(reading)
        selection = reading.options.selection
        if selection.enqueued_from_ms:
            since = positions_at(reading, selection.enqueued_from_ms)
            starts = {index: max(number, since[index]) for index, number in starts.items()}
        if selection.enqueued_to_ms < TIME_MS_MAX:
            until = positions_at(reading, selection.enqueued_to_ms)
            ends = {index: min(number, ends.get(index, number)) for index, number in until.items()}
        wanted: dict[int, int] = {}
        for index, number in starts.items():
            if self._pushed.wants(index):
                last = ends.get(index, NUMBERS_END)
                wanted[index], ends[index] = self._pushed.range_in(index, number, last)
        return wanted, ends

    def _plans(self, reading: Reading, starts: dict[int, int]) -> Answers:
        options = reading.options
        plans = reading.ask("plan", starts, retry_s=options.retry_s, sub_queue=options.sub_queue)
        return require(plans, "plan") if options.fails_on_data_loss else good(plans, "plan")


class PushingBatchReader(BatchReader):
    """The same, with conditions of the query that the bus evaluates."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Take what the bus can evaluate; returns the rest."""
        return list(self._pushed.take(filters))


def _readings(options: SourceOptions) -> list[Reading]:
    """One for each entity; those that match a pattern share one token for the namespace."""
    if not options.patterns:
        return [Reading(options)]
    access = Access(options.credentials, "", options.retry_s)
    return [Reading(replace(options, entity=path), access) for path in matching_entities(options)]
