"""A stream of `pipeline analytics` that goes on, ended from outside: by Ctrl-C and by SIGTERM.

Its command runs as a person's does, in a process of its own. Ended it has done what it was asked
for, so the code is 0; what was read is in the report, and a later run counts nothing again.
"""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from conformance.settlement.steps import until
from pyspark_servicebus.pipelines.analytics import AnalyticsSettings, analytics
from pyspark_servicebus.pipelines.run.state import load_state
from spark.bus import Bus
from spark.pipelines.deadletters.ticks import tick
from spark.pipelines.verbs import Process

pytestmark = [
    pytest.mark.group("spark"),
    pytest.mark.xdist_group("spark"),
    pytest.mark.timeout(900),
]
STREAM = {"mode": "stream", "window": "1s", "watermark": "0s", "cursor": "signals"}


def follow(
    bus: Bus, queue: str, place: Path, rows: int, end: Callable[[Process], int]
) -> dict[str, Any]:
    """Run the command until it has read so many messages, and end it; its report."""
    words = [place / "out", queue, "--stream", "--continuous", "--trigger", "200ms"]
    words += ["--window", "1s", "--watermark", "0s", "--cursor", STREAM["cursor"]]
    words += ["--state-dir", place / "state", "--master", "local[2,4]"]
    with Process.verb(bus.connection_string, place / "said.txt", "analytics", *words) as process:
        process.until(f"{rows} messages", lambda: rows_of(place, process) >= rows)
        assert end(process) == 0, process.said()
        report: dict[str, Any] = json.loads((place / "out" / "report.json").read_text())
        assert f"written: {place}/out/report.html" in process.said()
        assert "Traceback" not in process.said()
    state = load_state(place / "state" / "analytics.json")
    assert state is not None
    assert (state.status, state.rows, report["read_now"]) == ("finished", rows, rows)
    return report


def rows_of(place: Path, process: Process) -> int:
    """What this run has read, as its state tells."""
    state = load_state(place / "state" / "analytics.json")
    return state.rows if state is not None and state.process == process.process.pid else 0


def test_ended_from_outside_it_has_a_report_and_goes_on_where_it_was(
    spark: SparkSession, bus: Bus, tmp_path: Path
) -> None:
    queue = bus.queue()
    bus.fill(queue, 30)
    follow(bus, queue, tmp_path, 30, Process.interrupt)
    bus.fill(queue, 20, first=30)
    follow(bus, queue, tmp_path, 20, Process.terminate)

    last = max(message.enqueued_time_utc for message in bus.peek(queue))
    until("a later second", lambda: tick(bus, queue) > last)
    table = {"connection_string": bus.connection_string, "entities": [queue], **STREAM}
    settings = AnalyticsSettings.from_table({**table, "output": str(tmp_path / "out")})
    report = analytics(spark, settings)
    seconds = Counter(m.enqueued_time_utc.replace(microsecond=0) for m in bus.peek(queue))
    assert report.read_now == sum(seconds.values()) - 50
    closed = {start: count for start, count in seconds.items() if start < max(seconds)}
    assert {window.start: window.messages for window in report.windows} == closed
    assert sum(closed.values()) >= 50
