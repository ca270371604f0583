"""Capture as a process of its own: killed again and again, and beside traffic."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession

from partibus.client.message import OutgoingMessage
from pyspark_servicebus.pipelines.capture import capture
from pyspark_servicebus.pipelines.capture.summary import summary_of
from spark.bus import Bus
from spark.pipelines.capture.captures import check, settings_for
from spark.quick_python import PYTHON_PATH
from support.repository import ROOT
from support.server import ServerProcess

pytestmark = [
    pytest.mark.group("spark"),
    pytest.mark.xdist_group("spark"),
    pytest.mark.slow,
    pytest.mark.timeout(3600),
]
WAIT_SECONDS_MAX = 400.0
QUEUES = """
[[queue]]
name = "captured"
enable_partitioning = true
max_size_in_megabytes = 5120

[[queue]]
name = "free"
enable_partitioning = true
max_size_in_megabytes = 5120
"""


@pytest.fixture
def own_bus(tmp_path: Path) -> Iterator[Bus]:
    config = tmp_path / "namespace.toml"
    config.write_text(QUEUES)
    with ServerProcess(tmp_path, config) as server, Bus(server) as bus:
        yield bus


@contextlib.contextmanager
def capturing(
    bus: Bus, lake: Path, place: Path, *options: str
) -> Iterator["subprocess.Popen[bytes]"]:
    """The script for spark-submit, as a process group that can be killed."""
    words = ["--entity", "captured", "--target", str(lake), "--connection-string-ref", "env:BUS"]
    words += ["--state-dir", str(place / "state"), *options]
    environment = os.environ | {"BUS": bus.connection_string, "PYTHONPATH": PYTHON_PATH}
    with (place / "capture.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, str(ROOT / "examples/jobs/capture.py"), *words],
            stdout=log,
            stderr=log,
            env=environment,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_for(probe: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not probe():
        assert time.monotonic() < deadline
        threading.Event().wait(0.2)


def windows(lake: Path) -> int:
    return len(list((lake / "_capture" / "windows").glob("*.json")))


def send(bus: Bus, queue: str, count: int) -> list[str]:
    bodies = [f"{number:08d}".ljust(1024, "x") for number in range(count)]
    parts = (
        [OutgoingMessage(body=body.encode()).encode() for body in bodies[at : at + 1000]]
        for at in range(0, count, 1000)
    )
    told = bus.flight(queue).put(bus._location(queue), parts)
    assert sum(answer["accepted"] for answer in told) == count
    return bodies


@pytest.mark.parametrize("form", ["parquet", "delta"])
def test_a_driver_that_is_killed_again_and_again(
    spark: SparkSession, own_bus: Bus, tmp_path: Path, form: str
) -> None:
    lake = tmp_path / "lake"
    bodies = send(own_bus, "captured", 20_000)
    options = ("--window-size", "1MiB", "--format", form, "--template", "{fragment}")
    for kill in range(1, 4):
        with capturing(own_bus, lake, tmp_path, *options) as process:
            # More windows than before, and killed while it is at the next.
            reached = windows(lake) + kill

            def is_there(
                process: "subprocess.Popen[bytes]" = process, reached: int = reached
            ) -> bool:
                assert process.poll() is None, (tmp_path / "capture.log").read_text()[-3000:]
                return windows(lake) >= reached

            wait_for(is_there)
        if form == "parquet":
            found = ds.dataset([str(p) for p in lake.rglob("*.parquet")]).to_table(
                ["sequence_number"]
            )
            assert len(found) == len(pc.unique(found["sequence_number"]))
    last = {"window_size": "1MiB", "format": form, "template": "{fragment}"}
    capture(spark, settings_for(own_bus, "captured", lake, **last))
    check(lake, bodies, is_delta=form == "delta")
    assert own_bus.left("captured") == (20_000, 0, 0)


def bench(bus: Bus, queue: str, count: int) -> dict[str, float]:
    """Send and receive, as any client would; rates of both."""
    words = ["bench", queue, "-n", str(count), "--size", "1k", "--batch", "100", "--yes", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "partibus", *words, "--connection-string", bus.connection_string],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": PYTHON_PATH},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, float] = json.loads(done.stdout)
    assert told["received"] == count
    return told


def test_producers_and_consumers_go_on(spark: SparkSession, own_bus: Bus, tmp_path: Path) -> None:
    """What they pass on while it is captured is all captured; `bench.capture` has the rates."""
    lake, rounds, count = tmp_path / "lake", 4, 50_000
    options = ("--continuous", "--window-time", "5s", "--window-size", "16MiB")
    with capturing(own_bus, lake, tmp_path, *options) as process:
        for _ in range(rounds):
            bench(own_bus, "captured", count)
        wait_for(lambda: windows(lake) > 1)
        os.kill(process.pid, signal.SIGTERM)
        process.wait(300)
    assert summary_of(str(lake)).rows > 0
    capture(spark, settings_for(own_bus, "captured", lake, window_size="64MiB"))
    rows = ds.dataset([str(path) for path in lake.rglob("*.parquet")])
    numbers = rows.to_table(["sequence_number"])["sequence_number"]
    assert len(numbers) == len(pc.unique(numbers)) == count * rounds
    sizes = (pc.sum(pc.binary_length(batch["body"])) for batch in rows.to_batches(columns=["body"]))
    assert sum(size.as_py() or 0 for size in sizes) == len(numbers) * 1024
    assert own_bus.left("captured") == (0, 0, 0)
