"""The files of a traffic report: tables as Parquet, charts as PNG, a page, text and JSON.

Owns their names and columns. All are small and written by the driver; an existing report is
replaced, charts that are no longer drawn are deleted.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from pyspark_servicebus.pipelines.analytics.arithmetic import AGE_NAMES
from pyspark_servicebus.pipelines.analytics.page import traffic_page
from pyspark_servicebus.pipelines.analytics.pictures import charts_of
from pyspark_servicebus.pipelines.analytics.report import TrafficReport
from pyspark_servicebus.pipelines.report.charts import Chart
from pyspark_servicebus.pipelines.run.state import write_atomically

PAGE: Final = "report.html"
TEXT: Final = "report.txt"
JSON: Final = "report.json"
CHARTS: Final = "charts"
Rows = list[dict[str, Any]]


def write_report(directory: Path, report: TrafficReport) -> TrafficReport:
    """Write everything, and return the report with the names of the files."""
    charts = charts_of(report)
    folder = directory / CHARTS
    folder.mkdir(parents=True, exist_ok=True)
    tables = tables_of(report)
    names = [PAGE, TEXT, JSON, *(f"{name}.parquet" for name in tables)]
    names += [f"{CHARTS}/{chart.name}.png" for chart in charts]
    reported = dataclasses.replace(report, written=tuple(str(directory / name) for name in names))
    for name, rows in tables.items():
        _write_parquet(directory / f"{name}.parquet", rows)
    _write_charts(folder, charts)
    write_atomically(directory / PAGE, traffic_page(reported, charts))
    write_atomically(directory / TEXT, reported.as_text() + "\n")
    write_atomically(directory / JSON, reported.as_json() + "\n")
    return reported


def tables_of(report: TrafficReport) -> dict[str, Rows]:
    """The tables with rows, by name."""
    tables: dict[str, Rows] = {
        "entities": [dataclasses.asdict(row) for row in report.entities],
        "windows": [
            {**dataclasses.asdict(row), "messages_per_s": row.messages / report.window_s}
            for row in report.windows
        ],
        "fragments": [dataclasses.asdict(row) for row in report.fragments],
        "keys": [dataclasses.asdict(row) for row in report.keys],
        "ages": [dataclasses.asdict(row) for row in report.ages],
        "age_buckets": [
            {"entity": entity, "bucket": bucket, "age": AGE_NAMES[bucket], "messages": count}
            for entity, counts in report.age_buckets.items()
            for bucket, count in sorted(counts.items())
        ],
        "deliveries": [
            {"entity": entity, "delivery_count": value, "messages": count}
            for entity, counts in report.deliveries.items()
            for value, count in sorted(counts.items())
        ],
        "cursors": [dataclasses.asdict(row) for row in report.cursors],
    }
    return {name: rows for name, rows in tables.items() if rows}


def _write_parquet(file: Path, rows: Rows) -> None:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    fresh = file.with_name(f".{file.name}")
    parquet.write_table(pa.Table.from_pylist(rows), fresh, compression="zstd")
    fresh.replace(file)


def _write_charts(folder: Path, charts: Sequence[Chart]) -> None:
    for old in folder.glob("*.png"):
        if old.stem not in {chart.name for chart in charts}:
            old.unlink()
    for chart in charts:
        chart.save(folder)
