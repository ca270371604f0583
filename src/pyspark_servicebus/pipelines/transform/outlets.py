"""Where the rows of a pipeline go: an entity of the bus, Parquet files, a Delta table, the console.

Owns the kinds of sinks that transforms and declared pipelines share, and how each of them writes a
batch once: the bus by the sink's own guarantee, files by a folder for each batch, a table by a
commit with the number of the batch. Made from settings, used by `transform`.
"""

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark_servicebus.given_options import OptionsError
from pyspark_servicebus.options import sink_options
from pyspark_servicebus.pipelines.run.settings import SettingsError
from pyspark_servicebus.sink.plan import sink_plan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import StructType


class Outlet:
    """A sink that accepts every column, and writes a batch at a time unless it has its own way."""

    name: str
    """Its name in reports."""

    def check(self, schema: "StructType") -> None:
        """SettingsError for columns that it cannot accept."""

    def stream(self, frame: "DataFrame", query_id: Callable[[], str]) -> "DataStreamWriter":
        """A stream into it."""

        def write(batch: "DataFrame", batch_id: int) -> None:
            self.write(batch, batch_id, query_id())

        return frame.writeStream.foreachBatch(write)

    def write(self, frame: "DataFrame", batch_id: int, query_id: str) -> None:
        """One batch of a query into it."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class BusOutlet(Outlet):
    """A queue or topic; rows with their own target go there."""

    name: str
    options: Mapping[str, str]

    def check(self, schema: "StructType") -> None:
        try:
            sink_plan(schema, sink_options(self.options))
        except OptionsError as error:
            raise SettingsError(error.words) from None

    def stream(self, frame: "DataFrame", query_id: Callable[[], str]) -> "DataStreamWriter":
        return frame.writeStream.format("servicebus").options(**self.options)

    def write(self, frame: "DataFrame", batch_id: int, query_id: str) -> None:
        options = dict(self.options)
        if options["deliver"] == "staged":
            options["batchId"] = f"{query_id} {batch_id}"
        frame.write.format("servicebus").options(**options).mode("append").save()


@dataclass(frozen=True, slots=True)
class ParquetOutlet(Outlet):
    """Files in a folder for each batch; writing a batch again replaces its folder."""

    name: str

    def write(self, frame: "DataFrame", batch_id: int, query_id: str) -> None:
        folder = f"{self.name}/query={query_id[:8]}/batch={batch_id:08d}"
        frame.write.mode("overwrite").option("compression", "zstd").parquet(folder)


@dataclass(frozen=True, slots=True)
class DeltaOutlet(Outlet):
    """A Delta table; a batch is one commit, and a committed batch is not written again."""

    name: str

    def write(self, frame: "DataFrame", batch_id: int, query_id: str) -> None:
        from pyspark_servicebus.pipelines.capture.delta_frames import append_frame
        from pyspark_servicebus.pipelines.capture.folder import Lake

        append_frame(frame, Lake(self.name), query_id, batch_id)


@dataclass(frozen=True, slots=True)
class ConsoleOutlet(Outlet):
    """The first rows of each batch on stdout, as JSON, a line each."""

    rows_max: int = 20
    name: str = "the console"

    def write(self, frame: "DataFrame", batch_id: int, query_id: str) -> None:
        rows = frame.limit(self.rows_max + 1).collect()
        for row in rows[: self.rows_max]:
            print(json.dumps(_shown(row.asDict(recursive=True)), default=str, ensure_ascii=False))
        if len(rows) > self.rows_max:
            print(f"... batch {batch_id} has more than {self.rows_max} rows")


def _shown(value: Any) -> Any:
    if isinstance(value, bytes | bytearray):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {name: _shown(item) for name, item in value.items() if item is not None}
    return value


def query_id_in(checkpoint: str) -> str:
    """The id of the query that keeps its position here; Spark writes it before the first batch."""
    from pyspark_servicebus.pipelines.capture.folder import Lake

    found = Lake(checkpoint).read_json("metadata")
    assert found is not None, "Spark writes it before the first batch"
    return str(found["id"])
