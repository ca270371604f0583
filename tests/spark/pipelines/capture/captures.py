"""Captures of the tests: settings for a queue, and what every kind of reader finds.

Owns the check that a capture is exact: the manifests, the files by a plain reader, and the Delta
table tell the same, each number of each fragment once.
"""

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
from deltalake import DeltaTable

from pyspark_servicebus.pipelines.capture import CaptureSettings
from pyspark_servicebus.pipelines.capture.folder import OWN
from pyspark_servicebus.pipelines.capture.summary import Summary, summary_of
from pyspark_servicebus.pipelines.run.place import BusPlace
from spark.bus import Bus


def place_of(bus: Bus) -> BusPlace:
    return BusPlace(connection_string=bus.connection_string)


def settings_for(bus: Bus, entity: str, target: Path, **table: object) -> CaptureSettings:
    """A capture in small windows."""
    defaults = {"window_size": "64k", "retry": "20s"}
    given = {"bus": place_of(bus), "entity": entity, "target": str(target), **defaults, **table}
    return CaptureSettings.from_table(given)


def plain_rows(target: Path) -> list[dict[str, Any]]:
    """What a reader finds that knows nothing of captures: every *.parquet file there is."""
    files = [str(file) for file in target.rglob("*.parquet")]
    return ds.dataset(files, format="parquet").to_table().to_pylist() if files else []


def table_rows(target: Path) -> list[dict[str, Any]]:
    """What a reader of the Delta table finds."""
    rows: list[dict[str, Any]] = DeltaTable(target).to_pyarrow_table().to_pylist()
    return rows


def check(target: Path, expected: list[str], is_delta: bool = False) -> Summary:
    """Every message once for every reader, and nothing left half done."""
    rows = table_rows(target) if is_delta else plain_rows(target)
    numbers = Counter(row["sequence_number"] for row in rows)
    assert max(numbers.values(), default=1) == 1
    bodies = sorted(row["body"].decode() for row in rows)
    assert bodies == sorted(expected)
    found = summary_of(str(target))
    assert found.rows == len(expected)
    assert sum(span.rows for span in found.fragments.values()) == len(expected)
    for index, span in found.fragments.items():
        own = [number for number in numbers if number >> 48 == index]
        assert (min(own), max(own), len(own)) == (span.first, span.last, span.rows)
    left = [path for path in (target / OWN / "staging").rglob("*") if path.is_file()]
    assert not left
    for file in found.files if not is_delta else ():
        assert (target / file.path).stat().st_size == file.bytes
    return found
