"""Compaction: fewer files, the same messages, and no reader that sees one twice."""

import itertools
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyspark_servicebus.pipelines.capture import capture
from pyspark_servicebus.pipelines.capture.compaction import CompactSettings, compact
from pyspark_servicebus.pipelines.capture.folder import Lake
from pyspark_servicebus.pipelines.run.settings import SettingsError
from spark.bus import FRAGMENTS, Bus
from spark.pipelines.capture.captures import check, plain_rows, settings_for

pytestmark = [pytest.mark.group("spark"), pytest.mark.xdist_group("spark")]


def numbers(lake: Path) -> list[int]:
    return [row["sequence_number"] for row in plain_rows(lake)]


def test_files_become_fewer(spark: SparkSession, bus: Bus, tmp_path: Path) -> None:
    queue, lake = bus.queue(), tmp_path / "lake"
    bodies = bus.fill(queue, 200, size=1000)
    settings = settings_for(bus, queue, lake, template="{fragment}")
    capture(spark, settings)
    report = compact(spark, CompactSettings(target=str(lake)))
    assert report.files_before > FRAGMENTS
    assert report.files_after == FRAGMENTS == len(list(lake.rglob("*.parquet")))
    assert report.rows == 200
    check(lake, bodies)
    for file in lake.rglob("*.parquet"):
        rows = [row["sequence_number"] for row in plain_rows(file.parent)]
        assert rows == sorted(rows)
    bodies += bus.fill(queue, 100, first=200, size=1000)
    capture(spark, settings)
    assert compact(spark, CompactSettings(target=str(lake))).files_after == FRAGMENTS
    check(lake, bodies)
    assert compact(spark, CompactSettings(target=str(lake))).rows == 0


@pytest.mark.parametrize(("method", "call"), [("delete", 3), ("move", 1), ("delete_folder", 1)])
def test_a_compaction_that_ends_anywhere_is_ended_by_the_next(
    spark: SparkSession,
    bus: Bus,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    call: int,
) -> None:
    queue, lake = bus.queue("plain"), tmp_path / "lake"
    bodies = bus.fill(queue, 150, size=1000)
    capture(spark, settings_for(bus, queue, lake, template="all"))
    count = itertools.count(1)
    real = getattr(Lake, method)

    def break_off(*given: object) -> object:
        if next(count) >= call:
            raise OSError("the driver is gone")
        return real(*given)

    with monkeypatch.context() as patch:
        patch.setattr(Lake, method, break_off)
        with pytest.raises(OSError, match="the driver is gone"):
            compact(spark, CompactSettings(target=str(lake), file_size_bytes=100_000))
    assert len(numbers(lake)) == len(set(numbers(lake)))
    compact(spark, CompactSettings(target=str(lake), file_size_bytes=100_000))
    check(lake, bodies)


def test_a_table_is_compacted_in_one_commit(spark: SparkSession, bus: Bus, tmp_path: Path) -> None:
    queue, lake = bus.queue(), tmp_path / "lake"
    bodies = bus.fill(queue, 120, size=1000)
    settings = settings_for(bus, queue, lake, format="delta", template="{entity}")
    capture(spark, settings)
    report = compact(spark, CompactSettings(target=str(lake)))
    assert report.files_after == 1 < report.files_before
    check(lake, bodies, is_delta=True)
    bodies += bus.fill(queue, 10, first=120)
    capture(spark, settings)
    check(lake, bodies, is_delta=True)


def test_no_capture(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="holds no capture"):
        compact(spark, CompactSettings(target=str(tmp_path)))
