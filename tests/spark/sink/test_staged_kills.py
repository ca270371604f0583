"""From queue to queue while everything that takes part is killed: every message once."""

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from conformance.settlement.steps import until
from partibus.client.message import OutgoingMessage
from partibus.domain.partition_key import fragment_index
from pyspark_servicebus.bus import discover
from pyspark_servicebus.errors import BulkError
from spark.bus import Bus
from spark.killing import FRAGMENTS, Driver
from support.server import ServerProcess

pytestmark = [pytest.mark.group("spark"), pytest.mark.xdist_group("spark")]
PUBLISHED_SECONDS_MAX = 240


@pytest.fixture
def own_bus(tmp_path: Path) -> Iterator[Bus]:
    """A server that may be killed."""
    config = tmp_path / "namespace.toml"
    config.write_text(
        "\n".join(
            f'[[queue]]\nname = "{name}"\nenable_partitioning = true\nmax_delivery_count = 1000\n'
            "max_size_in_megabytes = 5120\n"
            for name in ("killed", "goal")
        )
    )
    with ServerProcess(tmp_path, config, "--stores", "2") as server, Bus(server) as bus:
        yield bus


def last_batch(bus: Bus) -> int:
    """What the bus has published last."""
    flight = bus.flight("goal")
    try:
        location = discover(flight.access, "goal").locations[fragment_index("killed", FRAGMENTS)]
        assert location is not None
        told = flight.action(location, "stage.writer", writer="killed")["writer"]
    except BulkError:
        return -1
    return -1 if told is None or told["batch"] is None else int(told["batch"])


def await_batch(bus: Bus, batch: int) -> None:
    """Return in the moment at which a batch is published: its driver does not know it yet."""
    deadline = time.monotonic() + PUBLISHED_SECONDS_MAX
    while last_batch(bus) < batch:
        assert time.monotonic() < deadline


def finish(spark: SparkSession, bus: Bus, place: Path) -> None:
    """Another driver goes on where the last one was."""
    options = bus.options("killed", mode="claim", claimOwner="killed")
    source = spark.readStream.format("servicebus").options(**options)
    sink = bus.options("goal", deliver="staged", writer="killed")
    writer = source.option("columns", "body").load().writeStream.format("servicebus")
    writer = writer.options(**sink).option("checkpointLocation", str(place / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()


def run(
    spark: SparkSession, bus: Bus, place: Path, master: str, messages: int, per_trigger: int
) -> None:
    location = bus._location("killed")
    payloads = (
        [OutgoingMessage(body=b"%d" % n).encode() for n in range(first, first + 1000)]
        for first in range(0, messages, 1000)
    )
    for answer in bus.flight("killed").put(location, payloads):
        assert answer["accepted"] == 1000
    program = "staged_driver.py"
    first = Driver(bus, master, "killed", place, per_trigger, program=program)
    try:
        first.until("BATCH 0")
        kind = "CoarseGrainedExecutorBackend" if "cluster" in master else "pyspark.daemon"
        victims = first.processes(kind)
        assert victims
        os.kill(victims[-1], signal.SIGKILL)
        first.until("BATCH 1")
        bus.server.restart()
        await_batch(bus, 3)
    finally:
        first.kill()
    bus.server.restart()
    finish(spark, bus, place)
    deadline = time.monotonic() + PUBLISHED_SECONDS_MAX
    while bus.left("goal")[0] < messages:
        assert time.monotonic() < deadline
    until("nothing to be on its way", lambda: not bus.totals("goal")["transfer"])
    rows = spark.read.format("servicebus").options(**bus.options("goal", columns="body")).load()
    found = Counter(int(bytes(row["body"])) for row in rows.toLocalIterator())
    assert set(found) == set(range(messages))
    assert [number for number, count in found.items() if count > 1] == []
    bus.await_left("killed", 0, 0, 0)


def test_worker_bus_and_driver_are_killed(
    spark: SparkSession, own_bus: Bus, tmp_path: Path
) -> None:
    run(spark, own_bus, tmp_path, "local[2,4]", 12_000, 2_000)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_executor_bus_and_driver_are_killed_with_many_messages(
    spark: SparkSession, own_bus: Bus, tmp_path: Path
) -> None:
    run(spark, own_bus, tmp_path, "local-cluster[2,1,1024]", 500_000, 50_000)
