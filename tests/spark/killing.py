"""Drivers that are killed, and the story of a kill: what every kind of cluster is put through.

Owns the program of driver.py as a process, the queue it reads, and the kills: of a Python worker,
of whatever runs it, of the driver, and of the bus, each in the middle of a batch. Tests say where
the query runs and what runs a Python worker there.
"""

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, Self

from cluster import command_of, descendants

from partibus.client.message import OutgoingMessage
from spark.bus import Bus
from spark.quick_python import PYTHON_PATH
from support.server import ServerProcess

LINE_SECONDS_MAX: Final = 240
FRAGMENTS: Final = 16
QUEUE: Final = "killed"
ENDED: Final = "END"


@contextmanager
def killable_bus(place: Path) -> Iterator[Bus]:
    """A server that may be killed, with one queue."""
    config = place / "namespace.toml"
    config.write_text(
        f'[[queue]]\nname = "{QUEUE}"\nenable_partitioning = true\nmax_delivery_count = 1000\n'
        "max_size_in_megabytes = 5120\n"
    )
    with ServerProcess(place, config, "--stores", "2") as server, Bus(server) as bus:
        yield bus


class Place(Protocol):
    """A bus, or what stands in front of it."""

    @property
    def connection_string(self) -> str: ...


class Driver:
    """The program of driver.py: what it says, and its processes."""

    def __init__(
        self,
        bus: Place,
        master: str,
        name: str,
        place: Path,
        per_trigger: int,
        mode: str = "claim",
        held: tuple[int, ...] = (),
        program: str = "driver.py",
    ) -> None:
        arguments = [master, name, str(place), str(per_trigger), mode, *map(str, held)]
        environment = os.environ | {"BUS": bus.connection_string, "PYTHONPATH": PYTHON_PATH}
        self._place = place
        self._log = place / "driver.log"
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name(program)), *arguments],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment | {"SPARK_LOCAL_IP": "127.0.0.1"},
            )
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()
        self.jvm = int(self.until("JVM").split()[1])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.kill()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as stream:
            for line in stream:
                self._lines.put(line.strip())
        self._lines.put(ENDED)

    def until(self, word: str) -> str:
        """The next line that begins with a word; the program must not end before."""
        while True:
            line = self._lines.get(timeout=LINE_SECONDS_MAX)
            if line.startswith(word):
                return line
            assert line != ENDED, self._log.read_text()[-3000:]

    def held(self, batch: int) -> int:
        """The process of the task that stands still in a batch."""
        mark = self._place / f"held-{batch}"
        deadline = time.monotonic() + LINE_SECONDS_MAX
        while not mark.exists():
            assert self.process.poll() is None, self._log.read_text()[-3000:]
            assert time.monotonic() < deadline, f"batch {batch} was never reached"
            threading.Event().wait(0.05)
        return int(mark.read_text())

    def release(self, batch: int) -> None:
        """Let that task go on."""
        (self._place / f"go-{batch}").touch()

    def processes(self, words: str) -> list[int]:
        """Processes below the driver with certain words in their command."""
        return [pid for pid in descendants(self.jvm) if words in command_of(pid)]

    def kill(self) -> None:
        """The driver and all that it has started."""
        for pid in (self.jvm, *descendants(self.jvm)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.kill()
        self.process.wait()


def kill(pid: int) -> None:
    """The power cut of one process."""
    os.kill(pid, signal.SIGKILL)


@dataclass(frozen=True)
class Story:
    """A queue is captured while everything that takes part is killed once."""

    bus: Bus
    place: Path
    master: str
    messages: int
    per_trigger: int
    kill_around: Callable[[int], None]
    """Kills what runs the Python worker whose process is given."""

    def run(self) -> None:
        """Every message is in the files once, and nothing stays claimed."""
        self._fill()
        with self._driver(1, 2, 3) as first:
            kill(first.held(1))
            self.kill_around(first.held(2))
            first.held(3)
        with self._driver(4) as second:
            second.held(4)
            self.bus.server.restart()
            second.release(4)
            counts = second.until("DONE").split()[1:]
        assert list(map(int, counts)) == [self.messages, self.messages, FRAGMENTS]
        self.bus.await_left(QUEUE, 0, 0, 0)

    def _driver(self, *held: int) -> Driver:
        return Driver(self.bus, self.master, QUEUE, self.place, self.per_trigger, held=held)

    def _fill(self) -> None:
        payloads = [OutgoingMessage(body=b"%d" % n).encode() for n in range(1000)]
        location = self.bus._location(QUEUE)
        batches = (payloads for _ in range(self.messages // 1000))
        for answer in self.bus.flight(QUEUE).put(location, batches):
            assert answer["accepted"] == 1000
