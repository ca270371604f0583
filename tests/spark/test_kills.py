"""Everything that takes part is killed in the middle; every message is written once."""

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

from partibus.client.message import OutgoingMessage
from spark.bus import Bus
from support.server import SOURCE, ServerProcess

pytestmark = [pytest.mark.group("spark"), pytest.mark.xdist_group("spark")]
LINE_SECONDS_MAX: Final = 240
FRAGMENTS: Final = 16


class Driver:
    """The program of driver.py: what it says, and its processes."""

    def __init__(self, bus: Bus, master: str, name: str, place: Path, per_trigger: int) -> None:
        arguments = [master, name, str(place), str(per_trigger)]
        environment = os.environ | {"BUS": bus.connection_string, "PYTHONPATH": str(SOURCE)}
        self._log = place / "driver.log"
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("driver.py")), *arguments],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment,
            )
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()
        self.jvm = int(self.until("JVM").split()[1])

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as stream:
            for line in stream:
                self._lines.put(line.strip())
        self._lines.put("END")

    def until(self, word: str) -> str:
        """The next line that begins with a word; the program must not end before."""
        while True:
            line = self._lines.get(timeout=LINE_SECONDS_MAX)
            if line.startswith(word):
                return line
            assert line != "END", self._log.read_text()[-3000:]

    def processes(self, words: str) -> list[int]:
        """Processes of this query with certain words in their command."""
        found, waiting = [], [self.jvm]
        while waiting:
            for child in children(waiting.pop()):
                waiting.append(child)
                with contextlib.suppress(OSError):
                    command = Path(f"/proc/{child}/cmdline").read_bytes().decode()
                    if words in command.replace("\0", " "):
                        found.append(child)
        return found

    def kill(self) -> None:
        """The driver and all that it has started."""
        for pid in (self.jvm, *self.processes("")):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.kill()
        self.process.wait()


def children(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                found += map(int, (thread / "children").read_text().split())
    return found


@pytest.fixture
def own_bus(tmp_path: Path) -> Iterator[Bus]:
    """A server that may be killed."""
    config = tmp_path / "namespace.toml"
    config.write_text(
        '[[queue]]\nname = "killed"\nenable_partitioning = true\nmax_delivery_count = 1000\n'
        "max_size_in_megabytes = 5120\n"
    )
    with ServerProcess(tmp_path, config, "--stores", "2") as server, Bus(server) as bus:
        yield bus


def run(
    spark: SparkSession, bus: Bus, place: Path, master: str, messages: int, per_trigger: int
) -> None:
    payloads = [OutgoingMessage(body=b"%d" % n).encode() for n in range(1000)]
    location = bus._location("killed")
    for answer in bus.flight("killed").put(location, (payloads for _ in range(messages // 1000))):
        assert answer["accepted"] == 1000
    first = Driver(bus, master, "killed", place, per_trigger)
    try:
        first.until("BATCH 0")
        kind = "CoarseGrainedExecutorBackend" if "cluster" in master else "pyspark.daemon"
        victims = first.processes(kind)
        assert victims
        os.kill(victims[-1], signal.SIGKILL)
        first.until("BATCH 2")
        bus.server.restart()
        first.until("BATCH 4")
    finally:
        first.kill()
    # Another driver goes on where that one was.
    options = bus.options("killed", mode="claim", claimOwner="killed")
    source = spark.readStream.format("servicebus").options(**options)
    frame = source.option("columns", "fragment,sequence_number,body").load()
    writer = frame.writeStream.format("parquet").option("path", str(place / "out"))
    writer = writer.option("checkpointLocation", str(place / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    rows = spark.read.parquet(str(place / "out"))
    assert rows.count() == messages
    assert rows.select("fragment", "sequence_number").distinct().count() == messages
    assert rows.select("fragment").distinct().count() == FRAGMENTS
    bus.await_left("killed", 0, 0, 0)


def test_worker_bus_and_driver_are_killed(
    spark: SparkSession, own_bus: Bus, tmp_path: Path
) -> None:
    run(spark, own_bus, tmp_path, "local[2,4]", 20_000, 2_000)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_executor_bus_and_driver_are_killed_with_a_million_messages(
    spark: SparkSession, own_bus: Bus, tmp_path: Path
) -> None:
    run(spark, own_bus, tmp_path, "local-cluster[2,1,1024]", 1_000_000, 100_000)
