"""`python -m bench.stages`: what it costs to stage messages and publish them, beside a plain put.

Owns the two ways of the same messages into a queue of several fragments over several stores, by a
bare Flight client, and the server's processor time of each step. No Spark, and no Java.
"""

import argparse
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from bench import gauge
from bench.bus import Bus
from partibus.client.message import OutgoingMessage
from partibus.domain.partition_key import fragment_index
from partibus.ops.compiled import is_compiled
from pyspark_servicebus.access import Access
from pyspark_servicebus.bus import Flight, discover
from pyspark_servicebus.credentials import Credentials

BODY_BYTES: Final = 1024
BATCH_MESSAGES: Final = 1000
_NAMES: Final = ("put", "staged", "plain", "keyed")
_NAMESPACE: Final = "\n".join(
    f'[[queue]]\nname = "{name}"\nmax_size_in_megabytes = 5120\n'
    f"enable_partitioning = {str(name != 'plain').lower()}\n"
    for name in _NAMES
)


class Job:
    """One way of the messages into a queue."""

    def __init__(self, bus: Bus, queue: str, messages: int, has_keys: bool = False) -> None:
        key = f"SharedAccessKeyName={bus.user};SharedAccessKey={bus.password}"
        place = f"Endpoint=sb://127.0.0.1:{bus.port};{key};UseDevelopmentEmulator=true;"
        self._access = Access(Credentials(None, place), queue, 60.0)
        self._flight = Flight(queue, self._access)
        self._queue = queue
        self._messages = messages
        noise = random.Random(0)
        self._batch = [
            OutgoingMessage(
                body=noise.randbytes(BODY_BYTES),
                message_id=f"{number:032d}",
                partition_key=f"key-{number % 100}" if has_keys else None,
                subject="bench",
                properties={"number": number, "kind": "bench"},
            ).encode()
            for number in range(BATCH_MESSAGES)
        ]

    def _batches(self) -> Iterator[list[bytes]]:
        for _ in range(self._messages // BATCH_MESSAGES):
            yield self._batch

    def _location(self, index: int) -> str:
        location = discover(self._access, self._queue).locations[index]
        assert location is not None
        return location

    def _home(self) -> str:
        count = len(discover(self._access, self._queue).locations)
        return self._location(fragment_index("bench", count))

    def put(self) -> None:
        """As any sender."""
        answers = self._flight.put(self._location(0), self._batches())
        assert sum(answer["accepted"] for answer in answers) == self._messages

    def stage(self) -> None:
        """Unseen."""
        fields = {"deliver": "staged", "writer": "bench", "epoch": 1, "stage": "s"}
        answers = self._flight.put(self._home(), self._batches(), **fields)
        assert sum(answer["accepted"] for answer in answers) == self._messages

    def publish(self) -> None:
        """Until the answer is there."""
        fields = {"writer": "bench", "series": "s", "epoch": 1, "batch": 0}
        stages = [("s", self._messages)]
        told = self._flight.action(self._home(), "stage.publish", **fields, stages=stages)
        assert told["published"] == self._messages

    def arrive(self) -> None:
        """Until the last message has come to its fragment."""
        while True:
            told = self._flight.action(self._location(0), "status")["fragments"].values()
            if sum(answer["active"] for answer in told) == self._messages:
                return
            time.sleep(0.01)


def measure(name: str, pid: int, messages: int, step: Callable[[], None]) -> None:
    cpu_s, began = gauge.cpu_seconds(pid), time.perf_counter()
    step()
    seconds, cpu_s = time.perf_counter() - began, gauge.cpu_seconds(pid) - cpu_s
    print(f"{name:<40}{messages / seconds:>12.0f}{1e6 * cpu_s / messages:>9.1f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.stages", description=__doc__)
    parser.add_argument("--messages", type=int, default=100_000, metavar="N", help="(%(default)s)")
    parser.add_argument("--stores", type=int, default=4, metavar="N", help="(%(default)s)")
    parser.add_argument("--directory", type=Path, default=Path("build"), help="(%(default)s)")
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="stages-", dir=options.directory) as root:
        directory = Path(root).resolve() / "bus"
        bus = Bus(directory, _NAMESPACE, "--stores", str(options.stores))
        bus.start()
        try:
            count = options.messages
            word = "compiled" if is_compiled() else "not compiled"
            print(f"{count} messages of {BODY_BYTES} bytes, {word}; CPU of the server in us")
            print(f"{'':<40}{'messages/s':>12}{'CPU':>9}")
            measure("put", bus.pid, count, Job(bus, "put", count).put)
            for name in ("staged", "keyed", "plain"):
                job = Job(bus, name, count, name == "keyed")
                measure(f"{name}: stage", bus.pid, count, job.stage)
                measure(f"{name}: publish", bus.pid, count, job.publish)
                measure(f"{name}: arrive", bus.pid, count, job.arrive)
        finally:
            bus.stop()


if __name__ == "__main__":
    main()
