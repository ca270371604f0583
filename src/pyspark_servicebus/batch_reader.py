"""A read in one go: what is there now, or what a cursor has not passed.

Owns `spark.read`: a snapshot of every fragment at the moment of planning. Nothing is locked,
moved or settled; messages that others take meanwhile may be missing, unless a cursor keeps them.
A fragment that cannot be read is an error, unless failOnDataLoss=false.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from pyspark_servicebus.options import SourceOptions
from pyspark_servicebus.planning import Slice
from pyspark_servicebus.positions import starting_positions
from pyspark_servicebus.reading import Reading, good, require
from pyspark_servicebus.tasks import BusPartition, plan_tasks, read_partition


class BatchReader(DataSourceReader):
    """`spark.read.format("servicebus")`."""

    def __init__(self, options: SourceOptions) -> None:
        self._options: SourceOptions | None = options
        self._columns = options.columns
        self._checks = options.fails_on_data_loss and options.mode == "cursor"

    def __getstate__(self) -> dict[str, Any]:
        # The executors get no options, and so no secret.
        return {**self.__dict__, "_options": None}

    def partitions(self) -> Sequence[InputPartition]:
        """One or more slices a fragment, grouped into tasks."""
        options = self._options
        assert options is not None
        reading = Reading(options)
        try:
            starts = starting_positions(reading)
            plans = reading.ask(
                "plan", "from", starts, patience_s=options.patience_s, sub_queue=options.sub_queue
            )
            known = require(plans, "plan") if options.fails_on_data_loss else good(plans, "plan")
            slices = [
                Slice(index, starts[index], plan["end"], plan["count"], plan["bytes"])
                for index, plan in known.items()
                if plan["count"]
            ]
            return plan_tasks(reading, slices, {"mode": "range", "sub_queue": options.sub_queue})
        finally:
            reading.close()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The messages of one task."""
        if not isinstance(partition, BusPartition):
            return iter(())  # Spark has a task of its own for a read without partitions
        return read_partition(partition, self._columns, self._checks)
