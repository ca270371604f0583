"""Frames of any columns as commits of a Delta table, without a JVM.

Owns how a batch is added to a table: the executors write Parquet files into its folder, and one
commit with the number of the batch makes them valid. Files without a commit are ignored. The same
method as for captures (`delta`), for other columns than those of messages.
"""

import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from pyspark_servicebus.pipelines.capture.delta import added, commit, has_commit, make_table
from pyspark_servicebus.pipelines.capture.folder import Lake
from pyspark_servicebus.pipelines.run.progress import PipelineFailed
from pyspark_servicebus.schema import arrow_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_TOLD: Final = "path string, rows bigint, bytes bigint"
_TOLD_SCHEMA: Final = arrow_of(_TOLD)


def append_frame(frame: "DataFrame", lake: Lake, query_id: str, batch_id: int) -> None:
    """Add a batch to the table, once."""
    from pyspark.sql.pandas.types import to_arrow_schema

    schema = to_arrow_schema(frame.schema, timezone="UTC")
    table = make_table(lake, schema)
    if has_commit(table, query_id, batch_id):
        return
    known = {field.name for field in table.schema().fields}
    if known != set(schema.names):
        raise PipelineFailed(
            f"The table '{lake.uri}' has the columns {', '.join(sorted(known))}, and the steps "
            f"give {', '.join(sorted(schema.names))}. Name another table, or select these columns."
        )
    reported = frame.mapInArrow(_task_writer(lake, query_id, batch_id, schema), _TOLD).collect()
    actions = [added(row.path, row.bytes, {"numRecords": row.rows}) for row in reported]
    commit(table, actions, query_id, batch_id)


def _task_writer(
    lake: Lake, query_id: str, batch_id: int, schema: pa.Schema
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        path = f"{query_id[:8]}-{batch_id:08d}-{uuid.uuid4().hex}.parquet"
        rows = 0
        writer = None
        for batch in batches:
            if not batch.num_rows:
                continue
            if writer is None:
                stream = lake.open_output(path)
                writer = pq.ParquetWriter(stream, schema, compression="zstd")
            writer.write_table(pa.Table.from_batches([batch]).cast(schema))
            rows += batch.num_rows
        reported = []
        if writer is not None:
            writer.close()
            stream.close()
            lake.sync(path)
            reported = [{"path": path, "rows": rows, "bytes": lake.size(path)}]
        yield pa.RecordBatch.from_pylist(reported, schema=_TOLD_SCHEMA)

    return write
