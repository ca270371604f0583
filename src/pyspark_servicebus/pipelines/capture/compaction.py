"""Compaction: merges many small files of a capture into few large ones, folder by folder.

Owns what is merged and the order in which files are replaced: the new file is written under a
staging name, its manifest makes it valid, the old files are deleted, and it gets its final name. A
reader in between misses messages for a moment, but never sees one twice; a run that died is
finished by the next. Delta tables are compacted by delta-rs in one commit.
"""

import json
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from partibus.domain.quantities import format_bytes
from pyspark_servicebus.pipelines.capture.delta import compact_table, is_delta
from pyspark_servicebus.pipelines.capture.files import REPORT_DDL, REPORT_SCHEMA, StagedFile
from pyspark_servicebus.pipelines.capture.folder import Lake
from pyspark_servicebus.pipelines.capture.manifest import (
    STAGING,
    CapturedFile,
    Compaction,
    current_files,
    load_compactions,
    load_windows,
    save_compaction,
)
from pyspark_servicebus.pipelines.capture.settings import CompactSettings
from pyspark_servicebus.pipelines.capture.target import DESCRIPTION, files_reported
from pyspark_servicebus.pipelines.capture.template import OWN
from pyspark_servicebus.pipelines.report.wording import counted
from pyspark_servicebus.pipelines.run.arguments import script_main
from pyspark_servicebus.pipelines.run.progress import SILENT, PipelineFailed, Progress, failure_of
from pyspark_servicebus.pipelines.run.reports import JsonReport
from pyspark_servicebus.pipelines.run.settings import SettingsError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["CompactReport", "CompactSettings", "compact", "main"]
COMPACTING: Final = f"{OWN}/compacting"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactReport(JsonReport):
    """The result of a compaction."""

    target: str
    files_before: int
    files_after: int
    rows: int
    """In the merged files."""
    bytes: int
    seconds: float

    def as_text(self) -> str:
        return (
            f"{self.target}: {counted(self.files_before, 'file')} before,"
            f" {self.files_after:,} now; {counted(self.rows, 'message')} rewritten,"
            f" {format_bytes(self.bytes)}, {self.seconds:.1f} s"
        )


def compact(
    spark: "SparkSession", settings: CompactSettings, progress: Progress = SILENT
) -> CompactReport:
    """Merge the small files of a capture; the capture may continue meanwhile."""
    lake = Lake(settings.target)
    began = time.monotonic()
    if lake.read_json(DESCRIPTION) is None:
        raise SettingsError(f"target: '{lake.uri}' holds no capture: {DESCRIPTION} is missing.")
    with lake.alone("compaction"):
        progress.started(lake.uri, None)
        try:
            counts = _delta(lake, settings) if is_delta(lake) else _files(spark, lake, settings)
        finally:
            progress.finished()
    return CompactReport(target=lake.uri, **counts, seconds=round(time.monotonic() - began, 3))


def _delta(lake: Lake, settings: CompactSettings) -> dict[str, int]:
    reported = compact_table(lake, settings.file_size_bytes)
    after = int(reported["totalConsideredFiles"]) + int(reported["numFilesAdded"])
    after -= int(reported["numFilesRemoved"])
    added = reported["filesAdded"]
    if isinstance(added, str):
        added = json.loads(added)
    return {
        "files_before": int(reported["totalConsideredFiles"]),
        "files_after": after,
        "rows": 0,
        "bytes": int(added.get("totalSize") or 0),
    }


def _files(spark: "SparkSession", lake: Lake, settings: CompactSettings) -> dict[str, int]:
    recover(lake)
    files = current_files(lake)
    groups = plan(files, settings.file_size_bytes, _unfinished(lake))
    done: list[Compaction] = []
    if groups:
        # They are replaced in the order of their names.
        prefix = f"c{round(time.time() * 1000):013d}"
        by_name = {f"{prefix}-{number:05d}": group for number, group in enumerate(groups)}
        for compaction in _merge(spark, lake, by_name):
            save_compaction(lake, compaction)
            _place(lake, compaction)
            done.append(compaction)
    return {
        "files_before": len(files),
        "files_after": len(files) + len(done) - sum(len(c.replaces) for c in done),
        "rows": sum(compaction.file.rows for compaction in done),
        "bytes": sum(compaction.file.bytes for compaction in done),
    }


def plan(
    files: Iterable[CapturedFile], file_bytes: int, but_for: frozenset[str] = frozenset()
) -> list[list[CapturedFile]]:
    """Which files are merged: neighbours in a folder, in the order of their messages."""
    folders: dict[str, list[CapturedFile]] = defaultdict(list)
    for file in files:
        if file.path not in but_for and file.bytes < file_bytes:
            folders[file.path.rpartition("/")[0]].append(file)
    groups: list[list[CapturedFile]] = []
    for folder in sorted(folders):
        group: list[CapturedFile] = []
        for file in sorted(folders[folder], key=lambda f: (f.first_enqueued_ms, f.path)):
            if group and sum(f.bytes for f in group) + file.bytes > file_bytes:
                groups.append(group)
                group = []
            group.append(file)
        groups.append(group)
    return [group for group in groups if len(group) > 1]


def recover(lake: Lake) -> None:
    """Finish valid compactions, and discard the others."""
    named = {compaction.name: compaction for compaction in load_compactions(lake)}
    for name in lake.folders(COMPACTING):
        if name in named:
            _place(lake, named[name])
        else:
            lake.delete_folder(f"{COMPACTING}/{name}")


def _place(lake: Lake, compaction: Compaction) -> None:
    for path in compaction.replaces:
        lake.delete(path)
    assert compaction.file.staged is not None
    lake.move(compaction.file.staged, compaction.file.path)
    lake.delete_folder(f"{COMPACTING}/{compaction.name}")


def _unfinished(lake: Lake) -> frozenset[str]:
    """Files of windows that a capture is just giving their final names."""
    staged = set(lake.folders(STAGING))
    windows = (window for window in load_windows(lake) if window.name in staged)
    return frozenset(file.path for window in windows for file in window.files)


def _merge(
    spark: "SparkSession", lake: Lake, groups: Mapping[str, Sequence[CapturedFile]]
) -> Iterator[Compaction]:
    """Write the new files in the executors; a file that lacks a row is an error."""
    rows = [(name, [file.path for file in group]) for name, group in groups.items()]
    frame = spark.createDataFrame(rows, "name string, paths array<string>")
    frame = frame.repartition(min(len(rows), 2 * spark.sparkContext.defaultParallelism))
    try:
        reported = frame.mapInArrow(_merger(lake), f"name string, {REPORT_DDL}").collect()
    except Exception as error:
        raise failure_of(error) from error
    by_name: dict[str, list[Any]] = defaultdict(list)
    for row in reported:
        by_name[row["name"]].append(row)
    for name, group in groups.items():
        expected = sum(file.rows for file in group)
        found = files_reported(by_name[name])
        if sum(file.rows for file in found) != expected:
            raise PipelineFailed(
                f"{expected} messages should be in {len(group)} files of"
                f" '{group[0].path.rpartition('/')[0]}', but are not; nothing was changed there."
            )
        if found:
            replaced = tuple(file.path for file in group)
            yield Compaction(name=name, file=found[0], replaces=replaced)


def _merger(lake: Lake) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    schema = pa.schema([("name", pa.string()), *REPORT_SCHEMA])

    def merge(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                reported = [
                    {"name": row["name"], **t} for t in _merged(lake, row["name"], row["paths"])
                ]
                yield pa.RecordBatch.from_pylist(reported, schema=schema)

    return merge


def _merged(lake: Lake, name: str, paths: Sequence[str]) -> list[dict[str, Any]]:
    tables = []
    for path in paths:
        with lake.open_input(path) as stream:
            tables.append(pq.read_table(stream))
    table = pa.concat_tables(tables, promote_options="default")
    if not len(table):
        return []
    # The numbers of a fragment begin with its index: one order for fragments and messages.
    table = table.sort_by("sequence_number")
    folder = paths[0].rpartition("/")[0]
    # A separate name for each attempt: an executor that was given up may still write.
    staged = f"{COMPACTING}/{name}/{uuid.uuid4().hex}.part"
    file = StagedFile(lake, staged, folder, name, table.schema)
    file.add_all(table)
    return list(file.close())


main = partial(
    script_main,
    name="compact",
    description="Put the small files of a capture together.",
    settings=CompactSettings,
    work=compact,
)
"""The script for spark-submit; returns the exit code."""
