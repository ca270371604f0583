"""The files of a dead-letter report: a page, JSON, text, and tables as Parquet.

Owns their names and the columns of the tables. All are small and written by the driver; an existing
report is replaced.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from pyspark_servicebus.pipelines.deadletters.page import dead_letter_page
from pyspark_servicebus.pipelines.deadletters.report import DeadLetterReport
from pyspark_servicebus.pipelines.run.state import write_atomically

PAGE: Final = "report.html"
TEXT: Final = "report.txt"
JSON: Final = "report.json"
_TIMES: Final = ("first", "last", "hour", "enqueued_time")
_NUMBERS: Final = ("count", "attempts_max", "attempts", "body_bytes", "sequence_number")
CAUSES: Final = ("entity", "reason", "shape", "count", "first", "last", "attempts_max")
HOURS: Final = ("hour", "entity", "reason", "count")
SAMPLES: Final = (
    *("entity", "reason", "shape", "sequence_number", "enqueued_time", "message_id", "subject"),
    *("attempts", "description", "body_bytes", "body_preview"),
)


def write_report(directory: Path, report: DeadLetterReport) -> DeadLetterReport:
    """Write everything, and return the report with the names of the files."""
    directory.mkdir(parents=True, exist_ok=True)
    causes = [dataclasses.asdict(cause) for cause in report.causes]
    samples = [{**cause, **sample} for cause in causes for sample in cause["samples"]]
    tables: dict[str, tuple[tuple[str, ...], list[dict[str, Any]]]] = {
        "causes.parquet": (CAUSES, causes),
        "hours.parquet": (HOURS, [dataclasses.asdict(hour) for hour in report.hours]),
        "samples.parquet": (SAMPLES, samples),
    }
    names = (PAGE, TEXT, JSON, *tables)
    reported = dataclasses.replace(report, written=tuple(str(directory / name) for name in names))
    for name, (columns, rows) in tables.items():
        write_parquet(directory / name, columns, rows)
    write_atomically(directory / PAGE, dead_letter_page(reported))
    write_atomically(directory / TEXT, reported.as_text() + "\n")
    write_atomically(directory / JSON, reported.as_json() + "\n")
    return reported


def write_parquet(file: Path, columns: Sequence[str], rows: list[dict[str, Any]]) -> None:
    """One small table as one file."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    def kind(name: str) -> pa.DataType:
        if name in _TIMES:
            return pa.timestamp("us", tz="UTC")
        return pa.int64() if name in _NUMBERS else pa.string()

    schema = pa.schema([(name, kind(name)) for name in columns])
    fresh = file.with_name(f".{file.name}")
    parquet.write_table(pa.Table.from_pylist(rows, schema=schema), fresh, compression="zstd")
    fresh.replace(file)
