"""The data source `servicebus`, as Spark loads it by that name.

Owns the choice of reader and writer by the options, and the check that Spark's workers run with
the right interpreter. It keeps the options as Spark gave them and shows none of them.
"""

import importlib.util
import sys

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from pyspark_servicebus.options import sink_options, source_columns, source_options


class ServiceBusDataSource(DataSource):
    """Queues and subscriptions of Partibus, or of any Service Bus over AMQP."""

    @classmethod
    def name(cls) -> str:
        """The name for `format`."""
        return "servicebus"

    def __repr__(self) -> str:
        return f"ServiceBusDataSource({', '.join(sorted(self.options))})"

    def schema(self) -> StructType:
        """The requested columns of a message."""
        from pyspark_servicebus.schema import spark_schema

        return spark_schema(list(source_columns(self.options)))

    def reader(self, schema: StructType) -> DataSourceReader:
        """A batch read."""
        require_arrow()
        from pyspark_servicebus.source.batch_reader import BatchReader, PushingBatchReader

        options = source_options(self.options, is_stream=False)
        if options.transport == "amqp":
            from pyspark_servicebus.over_amqp.readers import batch_reader

            return batch_reader(options)
        return PushingBatchReader(options) if options.pushes_filters else BatchReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """A streaming read."""
        require_arrow()
        options = source_options(self.options, is_stream=True)
        if options.transport == "amqp":
            from pyspark_servicebus.over_amqp.readers import stream_reader

            return stream_reader(options)
        if options.mode == "claim":
            from pyspark_servicebus.source.claim_stream import ClaimStream

            return ClaimStream(options)
        from pyspark_servicebus.source.cursor_stream import CursorStream

        return CursorStream(options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """A batch write; messages are appended, whatever the mode."""
        require_arrow()
        from pyspark_servicebus.sink.writers import BatchWriter

        return BatchWriter(sink_options(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """A streaming write."""
        require_arrow()
        from pyspark_servicebus.sink.writers import StreamWriter

        return StreamWriter(sink_options(self.options, is_stream=True), schema)


def require_arrow() -> None:
    """Report what to do when Spark started its workers with another interpreter than the user's."""
    if importlib.util.find_spec("pyarrow") is None:
        raise ImportError(
            f"Spark's workers run {sys.executable}, which has no pyarrow. Set PYSPARK_PYTHON to "
            "the interpreter that pyspark was installed with, on the driver before the session "
            "is made: os.environ['PYSPARK_PYTHON'] = sys.executable"
        )
