"""What batch reads over AMQP have in common.

Owns what is sent to the executors: the columns, but never the options, so that no secret is sent.
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from pyspark_servicebus.options import SourceOptions
from pyspark_servicebus.over_amqp import tasks


class AmqpReader(DataSourceReader):
    """A reader whose `partitions` are planned on the driver, with the options."""

    def __init__(self, options: SourceOptions) -> None:
        self._options: SourceOptions | None = options
        self._columns = options.columns

    def __getstate__(self) -> dict[str, Any]:
        # The executors get no options, and so no secrets.
        return {**self.__dict__, "_options": None}

    @property
    def options(self) -> SourceOptions:
        """The options; only on the driver."""
        assert self._options is not None
        return self._options

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The messages of one task."""
        return tasks.read(partition, self._columns)
