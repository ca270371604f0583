"""Pipelines that leave the messages where they are, on a cluster that loses an executor in a task.

Each is a job of the examples, by spark-submit. What it has made is compared with the bus, message
by message.
"""

import datetime
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as parquet
import pytest
from cluster import Cluster

from conformance.settlement.steps import until
from pyspark_servicebus.pipelines.capture.compaction import COMPACTING
from pyspark_servicebus.pipelines.capture.manifest import WINDOWS
from spark.bus import Bus
from spark.cluster.reconciling import (
    FRAGMENTS,
    KEYS,
    as_peeked,
    assert_nothing_held,
    by_number,
    fill,
    in_order_of_keys,
    job_options,
    message,
    pipeline_bus,
)
from spark.cluster.submitted import submit
from spark.pipelines.capture.captures import check, plain_rows, table_rows

pytestmark = [
    pytest.mark.group("spark"),
    pytest.mark.xdist_group("cluster"),
    pytest.mark.timeout(600),
]
COUNT: Final = 6000


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bus]:
    with pipeline_bus(tmp_path_factory.mktemp("pipelines")) as running:
        fill(running, "orders", COUNT)
        yield running


# --- captures -------------------------------------------------------------------------------


def capture(cluster: Cluster, bus: Bus, place: Path, form: str) -> Path:
    """The queue in files of a form; an executor is killed when two windows count."""
    lake = place / form
    given = ["--entity", "orders", "--target", str(lake), "--format", form]
    given += ["--window-size", "128k", *job_options(place, bus)]
    with submit(cluster, place, "capture.py", *given) as job:
        closed = lake / WINDOWS
        job.kill_an_executor_at_work(lambda: len(list(closed.glob("*.json"))) >= 2, "two windows")
        report = job.report()
    assert (report["rows"], report["waiting"]) == (COUNT, 0)
    assert report["windows"] > 5
    return lake


def check_capture(bus: Bus, lake: Path, is_delta: bool = False) -> None:
    """The files hold what the bus holds, each message once."""
    rows = by_number((table_rows if is_delta else plain_rows)(lake))
    waiting = as_peeked(bus, "orders")
    assert {number: row["body"] for number, row in rows.items()} == waiting
    assert len(waiting) == COUNT
    check(lake, [body.decode() for body in waiting.values()], is_delta)


@pytest.fixture(scope="module")
def captured(cluster: Cluster, bus: Bus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture in Parquet, which tests must not change."""
    return capture(cluster, bus, tmp_path_factory.mktemp("captured"), "parquet")


def test_a_capture_in_files_holds_what_the_bus_holds(bus: Bus, captured: Path) -> None:
    check_capture(bus, captured)
    assert_nothing_held(bus, "orders")


def test_a_capture_in_a_table_holds_what_the_bus_holds(
    cluster: Cluster, bus: Bus, tmp_path: Path
) -> None:
    check_capture(bus, capture(cluster, bus, tmp_path, "delta"), is_delta=True)
    assert_nothing_held(bus, "orders")


def test_a_compaction_keeps_every_message(
    cluster: Cluster, bus: Bus, captured: Path, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    shutil.copytree(captured, lake)
    given = ["--target", str(lake), "--file-size", "64k", *job_options(tmp_path)]
    with submit(cluster, tmp_path, "compact.py", *given) as job:
        staged = lake / COMPACTING
        job.kill_an_executor_at_work(lambda: any(staged.rglob("*.part")), "a new file")
        report = job.report()
    assert report["files_after"] < report["files_before"]
    assert report["files_after"] == len(list(lake.rglob("*.parquet")))
    assert not list(staged.rglob("*.part"))
    check_capture(bus, lake)


def test_a_replay_sends_every_message_once(
    cluster: Cluster, bus: Bus, captured: Path, tmp_path: Path
) -> None:
    given = ["--source", str(captured), "--entity", "again", "--batch", str(COUNT)]
    given += ["--state", str(tmp_path / "positions.json"), *job_options(tmp_path, bus)]
    with submit(cluster, tmp_path, "replay.py", *given) as job:
        job.kill_an_executor_at_work(lambda: reached(bus, "again"), "messages")
        report = job.report()
    assert report["rows"] == COUNT
    until("all messages", lambda: bus.totals("again")["active"] >= COUNT)
    sent, again = in_order_of_keys(bus.peek("orders")), in_order_of_keys(bus.peek("again"))
    assert len(again) == KEYS
    assert again == sent
    assert bus.left("again") == (COUNT, 0, 0)
    assert_nothing_held(bus, "orders", "again")


def reached(bus: Bus, queue: str) -> int:
    """How many messages have come to a queue, whether they are seen there yet or not."""
    totals = bus.totals(queue)
    return totals["active"] + totals["staged"]


# --- analytics ------------------------------------------------------------------------------


def test_analytics_of_what_waits(cluster: Cluster, bus: Bus, tmp_path: Path) -> None:
    output = tmp_path / "traffic"
    given = ["--entities", "orders", "--output", str(output), *job_options(tmp_path, bus)]
    with submit(cluster, tmp_path, "analytics.py", *given) as job:
        job.kill_an_executor_at_work(job.stages_done, "the messages in memory")
        report = job.report()
    waiting = bus.peek("orders")
    assert len(waiting) == COUNT
    [entity] = report["entities"]
    assert (entity["messages"], entity["keys"]) == (COUNT, KEYS)
    assert entity["bytes"] == sum(len(b"".join(found.body)) for found in waiting)
    seen = bus.operator.entity("orders")["fragments"]
    fragments = parquet.read_table(output / "fragments.parquet").to_pylist()
    assert {row["fragment"]: row["messages"] for row in fragments} == {
        index: seen[index]["active"] for index in range(FRAGMENTS)
    }
    windows = parquet.read_table(output / "windows.parquet").to_pylist()
    minutes = Counter(minute(found.enqueued_time_utc) for found in waiting)
    assert {row["start"]: row["messages"] for row in windows} == minutes
    assert_nothing_held(bus, "orders")


def minute(time: datetime.datetime) -> datetime.datetime:
    return time.replace(second=0, microsecond=0)


def second(time: datetime.datetime) -> datetime.datetime:
    return time.replace(microsecond=0)


def test_analytics_of_what_passes(cluster: Cluster, bus: Bus, tmp_path: Path) -> None:
    fill(bus, "watched", COUNT)
    newest = max(second(found.enqueued_time_utc) for found in bus.peek("watched"))
    until("a later second", lambda: tick(bus) > newest)
    output = tmp_path / "traffic"
    given = ["--entities", "watched", "--output", str(output), "--mode", "stream"]
    given += ["--window", "1s", "--watermark", "0s", *job_options(tmp_path, bus)]
    with submit(cluster, tmp_path, "analytics.py", *given) as job:
        job.kill_an_executor_at_work(job.stages_done, "a stage of the first batch")
        report = job.report()
    passed = bus.peek("watched")
    assert report["read_now"] == len(passed) > COUNT
    seconds = Counter(second(found.enqueued_time_utc) for found in passed)
    closed = {start: count for start, count in seconds.items() if start < max(seconds)}
    assert written(output) == closed
    assert sum(closed.values()) >= COUNT
    assert_nothing_held(bus, "watched")


def tick(bus: Bus) -> datetime.datetime:
    """Send a message; the whole second in which it was enqueued."""
    fill(bus, "watched", 1, lambda _: message(COUNT))
    return max(second(found.enqueued_time_utc) for found in bus.peek("watched"))


def written(output: Path) -> dict[datetime.datetime, int]:
    """Messages by window, as the report has them."""
    rows: list[dict[str, Any]] = parquet.read_table(output / "windows.parquet").to_pylist()
    return {row["start"]: row["messages"] for row in rows}
