"""What a progress report tells: how far a query is behind."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pyspark_servicebus.lag import messages_behind
from spark.bus import FRAGMENTS, Bus
from spark.source.test_source import capture, stream

pytestmark = [pytest.mark.group("spark"), pytest.mark.xdist_group("spark")]


def behind(progress: dict[str, Any]) -> int:
    (source,) = progress["sources"]
    told = messages_behind(source)
    assert told is not None
    assert set(told) == set(range(FRAGMENTS))
    return sum(told.values())


@pytest.mark.parametrize("mode", ["cursor", "claim"])
def test_the_lag_is_reported(spark: SparkSession, bus: Bus, tmp_path: Path, mode: str) -> None:
    queue = bus.queue()
    bus.fill(queue, 50)
    name = {"cursor": "cursor", "claim": "claimOwner"}[mode]
    options = bus.options(queue, mode=mode, maxMessagesPerTrigger=20, **{name: "job"})
    query = capture(stream(spark, options), tmp_path)
    query.awaitTermination()
    reports = [report for report in query.recentProgress if report["numInputRows"]]
    assert [report["numInputRows"] for report in reports] == [20, 20, 10]
    assert [behind(report) for report in reports] == [30, 10, 0]
    assert "Key" not in str(reports)


def test_what_tells_nothing() -> None:
    assert messages_behind({"latestOffset": None, "endOffset": None}) is None
    assert messages_behind({"latestOffset": "text", "endOffset": "text"}) is None
    assert messages_behind({"latestOffset": {"v": 1, "f": {"0": 5}}, "endOffset": None}) == {0: 4}
