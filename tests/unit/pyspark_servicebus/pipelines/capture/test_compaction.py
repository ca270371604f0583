"""The files that tasks of a compaction write; the whole of it is in tests/spark/pipelines."""

import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet

from pyspark_servicebus.pipelines.capture.compaction import _merger
from pyspark_servicebus.pipelines.capture.folder import Lake

NOW = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)


def captured(target: Path, first: int) -> str:
    """A small file of a capture."""
    rows = [
        {"fragment": 0, "sequence_number": n, "enqueued_time": NOW} for n in range(first, first + 3)
    ]
    (target / "all").mkdir(exist_ok=True)
    parquet.write_table(pa.Table.from_pylist(rows), target / "all" / f"{first}.parquet")
    return f"all/{first}.parquet"


def test_a_task_that_is_tried_again_writes_a_file_of_its_own(tmp_path: Path) -> None:
    """The first try may still write: its executor was given up, and lives."""
    paths = [captured(tmp_path, 1), captured(tmp_path, 4)]
    batch = pa.RecordBatch.from_pylist([{"name": "c1", "paths": paths}])
    merge = _merger(Lake(str(tmp_path)))
    tries = [row for _ in range(2) for told in merge([batch]) for row in told.to_pylist()]
    assert [row["rows"] for row in tries] == [6, 6]
    assert tries[0]["path"] == tries[1]["path"]
    assert len({row["staged"] for row in tries}) == 2
    for row in tries:
        found = parquet.read_table(tmp_path / row["staged"])["sequence_number"].to_pylist()
        assert found == [1, 2, 3, 4, 5, 6]
