"""`python -m bench.capture`: what a capture costs the producers and consumers beside it.

Owns the traffic, in rounds: with the capture stopped (through a queue of its own), and with the
capture at work on what passes. So the noise of the machine is in both, and all of the capture's
work falls into rounds that count. At the end rows and bytes are reconciled with what was sent.
"""

import argparse
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from bench import gauge
from bench.bus import Bus
from partibus.ops.compiled import is_compiled

BODY_BYTES: Final = 1024
START_SECONDS_MAX: Final = 300
_NAMESPACE: Final = "\n".join(
    f'[[queue]]\nname = "{name}"\nenable_partitioning = true\nmax_size_in_megabytes = 5120\n'
    for name in ("captured", "free")
)


def connection(bus: Bus) -> str:
    key = f"SharedAccessKeyName={bus.user};SharedAccessKey={bus.password}"
    return f"Endpoint=sb://127.0.0.1:{bus.port};{key};UseDevelopmentEmulator=true;"


def traffic(bus: Bus, queue: str, count: int, batch: int = 100) -> dict[str, float]:
    """A producer and a consumer at once, as fast as they can; their rates."""
    words = ["bench", queue, "-n", str(count), "--size", str(BODY_BYTES), "--batch", str(batch)]
    words += ["--yes", "--json", "--connection-string", connection(bus)]
    command = [sys.executable, "-m", "partibus", *words]
    before_s = gauge.cpu_seconds(bus.pid)
    told: dict[str, float] = json.loads(subprocess.check_output(command))
    if told["received"] != count:
        raise RuntimeError(f"{told['received']} of {count} messages came back")
    return told | {"bus_us": 1e6 * (gauge.cpu_seconds(bus.pid) - before_s) / count}


class Capture:
    """`partibus pipeline capture --continuous`, with its JVM and its workers."""

    def __init__(self, bus: Bus, lake: Path, log: Path, given: argparse.Namespace) -> None:
        self._lake = lake
        words = ["pipeline", "capture", "captured", str(lake), "--continuous"]
        words += ["--window-time", given.window_time, "--window-size", given.window_size]
        words += ["--nice", str(given.nice), "--state-dir", str(lake.parent / "state")]
        words += ["--connection-string", connection(bus)]
        with log.open("wb") as stream:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "partibus", *words],
                stdout=stream,
                stderr=stream,
                start_new_session=True,
            )

    def windows(self) -> int:
        return len(list((self._lake / "_capture" / "windows").glob("*.json")))

    def wait_for(self, event: Callable[[], bool]) -> None:
        deadline = time.monotonic() + START_SECONDS_MAX
        while not event():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("the capture does not begin")
            time.sleep(0.2)

    def cpu_s(self) -> float:
        return gauge.tree_cpu_seconds(self._process.pid)

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        os.killpg(self._process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.killpg(self._process.pid, signal.SIGCONT)

    def end(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(START_SECONDS_MAX)

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def has_cursor(bus: Bus) -> bool:
    """Whether the bus keeps what passes from now on."""
    words = ["cursor", "list", "captured", "--json", "--connection-string", connection(bus)]
    told = json.loads(subprocess.check_output([sys.executable, "-m", "partibus", *words]))
    return bool(told["cursors"])


def captured_rows(lake: Path) -> int:
    from pyspark_servicebus.pipelines.capture.summary import summary_of

    return summary_of(str(lake)).rows


def reconcile(lake: Path, count: int) -> str:
    """Every message once, and every byte."""
    import pyarrow.compute as pc
    import pyarrow.dataset as ds

    rows: Any = ds.dataset([str(path) for path in lake.rglob("*.parquet")])
    numbers = rows.to_table(["sequence_number"])["sequence_number"]
    sizes = (pc.sum(pc.binary_length(batch["body"])) for batch in rows.to_batches(columns=["body"]))
    found, once = len(numbers), len(pc.unique(numbers))
    size = sum(part.as_py() or 0 for part in sizes)
    if (found, once, size) != (count, count, count * BODY_BYTES):
        raise RuntimeError(f"{found} rows, {once} numbers, {size} bytes, where {count} were sent")
    return f"{found:,} rows, each number once, {size:,} bytes of bodies: as sent"


def finish(bus: Bus, lake: Path) -> None:
    """Capture what is left, as another run would."""
    words = ["pipeline", "capture", "captured", str(lake), "--connection-string", connection(bus)]
    words += ["--state-dir", str(lake.parent / "state")]
    command = [sys.executable, "-m", "partibus", *words]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def rounds(bus: Bus, capture: Capture, given: argparse.Namespace) -> list[float]:
    """The rates beside the capture, each as a share of the rate without it just before."""
    shares = []
    for number in range(given.rounds):
        count = given.messages // given.rounds
        with capture.stopped():
            free = traffic(bus, "free", count, given.batch)
        beside = traffic(bus, "captured", count, given.batch)
        shares.append(beside["receive_per_s"] / free["receive_per_s"])
        rates = f"{free['receive_per_s']:>12.0f}{beside['receive_per_s']:>12.0f}"
        costs = f"{free['bus_us']:>9.1f}{beside['bus_us']:>9.1f}"
        line = f"{number + 1:>5}{rates}{shares[-1]:>8.2f}{costs}{capture.windows():>9}"
        print(line, flush=True)
    return shares


def run(bus: Bus, directory: Path, given: argparse.Namespace) -> None:
    lake = directory / "lake"
    traffic(bus, "free", 10_000)  # not counted: everything warms up
    capture = Capture(bus, lake, directory / "capture.log", given)
    try:
        warm = 1000
        capture.wait_for(lambda: has_cursor(bus))
        traffic(bus, "captured", warm)
        capture.wait_for(lambda: capture.windows() > 0)
        began = capture.cpu_s()
        heads = f"{'share':>8}{'bus us':>9}{'beside':>9}{'windows':>9}"
        print(f"{'round':>5}{'free/s':>12}{'beside/s':>12}{heads}")
        shares = rounds(bus, capture, given)
        used_s, rows = capture.cpu_s() - began, captured_rows(lake) - warm
        capture.end()
    finally:
        capture.kill()
    finish(bus, lake)
    print(f"median share of the throughput that is left: {statistics.median(shares):.2f}")
    print(f"captured when the traffic ended: {rows:,} of {given.messages:,}")
    print(f"the capture's processor time: {1e6 * used_s / max(rows, 1):.1f} us a message")
    print(reconcile(lake, given.messages + warm))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.capture", description=__doc__)
    parser.add_argument(
        "--messages", type=int, default=1_000_000, metavar="N", help="(%(default)s)"
    )
    parser.add_argument("--batch", type=int, default=100, metavar="N", help="(%(default)s)")
    parser.add_argument("--rounds", type=int, default=10, metavar="N", help="(%(default)s)")
    parser.add_argument("--nice", type=int, default=19, metavar="N", help="(%(default)s)")
    parser.add_argument("--window-time", default="15s", metavar="TIME", help="(%(default)s)")
    parser.add_argument("--window-size", default="64MiB", metavar="SIZE", help="(%(default)s)")
    parser.add_argument("--directory", type=Path, default=Path("build"), help="(%(default)s)")
    given = parser.parse_args()
    from pyspark_servicebus.java_runtime import JavaMissing, use_java

    try:
        use_java()
    except JavaMissing as error:
        print(f"left out: {error}")
        return
    given.directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="capture-", dir=given.directory) as root:
        directory = Path(root).resolve()
        bus = Bus(directory / "bus", _NAMESPACE, "--stores", "4")
        bus.start()
        try:
            print(
                f"{given.messages:,} messages of {BODY_BYTES} bytes, "
                f"{'' if is_compiled() else 'not '}compiled; capture at nice {given.nice}"
            )
            run(bus, directory, given)
        finally:
            bus.stop()


if __name__ == "__main__":
    main()
