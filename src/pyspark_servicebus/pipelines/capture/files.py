"""Messages from the bus to Parquet files of a window, in the executors.

Owns the files of one task: which folder a message belongs to, how much is put into a row group, and
what is reported to the driver about each file. Everything is written under a staging name that
readers of Parquet ignore; a failed attempt leaves nothing valid.
"""

import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from partibus.domain.sequence import number_of
from pyspark_servicebus.errors import LossAdvice
from pyspark_servicebus.pipelines.capture.folder import Lake
from pyspark_servicebus.pipelines.capture.manifest import STAGING
from pyspark_servicebus.pipelines.capture.template import PathTemplate
from pyspark_servicebus.schema import RAW_COLUMN, arrow_of, arrow_schema
from pyspark_servicebus.source.tasks import BusPartition

ROW_GROUP_BYTES: Final = 32 * 1024 * 1024
OPEN_FILES_MAX: Final = 32
UNIQUE: Final = (
    "body",
    RAW_COLUMN,
    "message_id",
    "sequence_number",
    "enqueued_sequence_number",
    "enqueued_time",
)
REPORT_DDL: Final = (
    "path string, staged string, fragment int, first bigint, last bigint, rows bigint, "
    "bytes bigint, first_enqueued_ms bigint, last_enqueued_ms bigint"
)
"""What a task reports: a row for each file and fragment; each of them repeats the bytes."""
REPORT_SCHEMA: Final = arrow_of(REPORT_DDL)


def _form(schema: pa.Schema) -> dict[str, Any]:
    """How columns are written: a dictionary of unique values costs time and saves nothing, and so
    do statistics of bodies."""
    repeated = [name for name in schema.names if name not in UNIQUE]
    ordered = [name for name in schema.names if name not in ("body", RAW_COLUMN)]
    return {"compression": "zstd", "use_dictionary": repeated, "write_statistics": ordered}


class StagedFile:
    """One file being written."""

    def __init__(self, lake: Lake, staged: str, folder: str, window: str, schema: pa.Schema):
        self.lake, self.staged, self.folder = lake, staged, folder
        self._window = window
        self._spans: dict[int, tuple[int, int, int, int, int]] = {}
        """For each fragment: first and last number, rows, first and last time."""
        self._waiting: list[pa.Table] = []
        self._waiting_bytes = 0
        self._stream = lake.open_output(staged)
        self._writer = pq.ParquetWriter(self._stream, schema, **_form(schema))

    def add(self, fragment: int, table: pa.Table) -> None:
        self._note(fragment, table)
        self._waiting.append(table)
        self._waiting_bytes += table.nbytes
        if self._waiting_bytes >= ROW_GROUP_BYTES:
            self._flush()

    def _note(self, fragment: int, table: pa.Table) -> None:
        numbers, times = pc.min_max(table["sequence_number"]), pc.min_max(_times_ms(table))
        first, last = numbers["min"].as_py(), numbers["max"].as_py()
        low, high = times["min"].as_py(), times["max"].as_py()
        known = self._spans.get(fragment, (first, last, 0, low, high))
        self._spans[fragment] = (
            min(known[0], first),
            max(known[1], last),
            known[2] + len(table),
            min(known[3], low),
            max(known[4], high),
        )

    def add_all(self, table: pa.Table) -> None:
        """Messages of any fragments, in their order."""
        for fragment, part in by_fragment(table):
            self.add(fragment, part)

    def close(self) -> Iterator[dict[str, Any]]:
        """End the file, durably; returns the report for the driver."""
        self._flush()
        self._writer.close()
        self._stream.close()
        self.lake.sync(self.staged)
        byte_count = self.lake.size(self.staged)
        spans = self._spans
        lowest = min(spans)
        number = number_of(spans[lowest][0])
        path = f"{self.folder}/{self._window}-f{lowest:04d}-{number:012d}.parquet"
        for fragment, (first, last, rows, low, high) in spans.items():
            yield dict(
                zip(
                    REPORT_SCHEMA.names,
                    (path, self.staged, fragment, first, last, rows, byte_count, low, high),
                    strict=True,
                )
            )

    def _flush(self) -> None:
        if self._waiting:
            table = pa.concat_tables(self._waiting)
            self._writer.write_table(table, row_group_size=max(len(table), 1))
            self._waiting, self._waiting_bytes = [], 0


@dataclass(frozen=True, slots=True)
class WindowOptions:
    """What every task of a window gets."""

    lake: Lake
    template: PathTemplate
    window: str
    columns: list[str]


class TaskFiles:
    """All files of one task."""

    def __init__(self, options: WindowOptions) -> None:
        self._lake, self._template, self._window = options.lake, options.template, options.window
        self._staging = f"{STAGING}/{options.window}"
        self._schema = arrow_schema(options.columns)
        self._open: OrderedDict[str, StagedFile] = OrderedDict()

    def add(self, batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
        """Add messages to their files; returns the reports of files that were closed to make
        room."""
        table = pa.Table.from_batches([batch]).cast(self._schema)
        for fragment, part in by_fragment(table):
            for folder, rows in self._by_folder(fragment, part):
                yield from self._file_for(folder, fragment, rows)

    def close(self) -> Iterator[dict[str, Any]]:
        while self._open:
            yield from self._open.popitem(last=False)[1].close()

    def _file_for(self, folder: str, fragment: int, rows: pa.Table) -> Iterator[dict[str, Any]]:
        file = self._open.get(folder)
        if file is None:
            if len(self._open) >= OPEN_FILES_MAX:
                yield from self._open.popitem(last=False)[1].close()
            staged = f"{self._staging}/{uuid.uuid4().hex}.part"
            file = StagedFile(self._lake, staged, folder, self._window, self._schema)
            self._open[folder] = file
        self._open.move_to_end(folder)
        file.add(fragment, rows)

    def _by_folder(self, fragment: int, table: pa.Table) -> Iterator[tuple[str, pa.Table]]:
        """Messages of one fragment by their folder; usually there is one."""
        template = self._template
        if not template.has_time:
            yield template.path(fragment, 0), table
            return
        times = _times_ms(table)
        width = template.window_time_ms
        starts = pc.multiply(pc.divide(times, width), width)
        found = pc.unique(starts).to_pylist()
        for start in found:
            # Selecting rows copies their bodies.
            rows = table if len(found) == 1 else table.filter(pc.equal(starts, start))
            yield template.path(fragment, start), rows


def window_writer(
    parts: list[BusPartition], advice: LossAdvice | None, options: WindowOptions
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for `mapInArrow`: positions in `parts` in, reports of what was written out."""

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        files = TaskFiles(options)
        reported: list[dict[str, Any]] = []
        for batch in batches:
            for place in batch.column(0).to_pylist():
                for messages in parts[place].read(options.columns, advice):
                    reported += files.add(messages)
        reported += files.close()
        yield pa.RecordBatch.from_pylist(reported, schema=REPORT_SCHEMA)

    return write


def by_fragment(table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    fragments = pc.unique(table["fragment"]).to_pylist()
    for fragment in fragments:
        if len(fragments) == 1:
            yield fragment, table
        else:
            yield fragment, table.filter(pc.equal(table["fragment"], fragment))


def _times_ms(table: pa.Table) -> pa.ChunkedArray:
    times = table["enqueued_time"].cast(pa.timestamp("ms", tz="UTC"), safe=False)
    return times.cast(pa.int64())
