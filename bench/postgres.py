"""A store in PostgreSQL: what bus and database use together, and what a commit takes.

Owns one scenario, apart from the loads: a bus whose store is in a database of this machine. CPU
seconds are those of the bus and of every process of the database. The time of a send with one
message in flight stands beside that of a bare commit of the same database, measured in turn.
`python -m bench.postgres`; without `--database` it starts a server of its own, which needs
Debian's package `postgresql`.
"""

import argparse
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, Final

import psycopg

from bench import gauge
from bench.bus import NAMESPACE, Bus
from bench.peers import free_port
from bench.scenarios import BOTH, CPU, P50, RATE, RECEIVE, SEND, Scenario, measure

SEND_1K: Final = Scenario(name="send 1 KB", way=SEND)
RECEIVE_1K: Final = Scenario(name="receive 1 KB", way=RECEIVE)
BOTH_1K: Final = Scenario(name="both 1 KB", way=BOTH)
ONE_BY_ONE: Final = Scenario(name="send 1 KB, 1 in flight", way=SEND, window=1, share=0.01)
COMMITS: Final = 500


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.postgres", description=__doc__)
    parser.add_argument("--messages", type=int, default=100_000, metavar="N", help="(%(default)s)")
    parser.add_argument("--repeats", type=int, default=3, metavar="N", help="(%(default)s)")
    parser.add_argument("--database", metavar="URL", help="of a server on this machine")
    parser.add_argument(
        "--directory", type=Path, default=Path("build"), help="where data goes (%(default)s)"
    )
    return parser.parse_args()


@contextmanager
def own_server() -> Iterator[str]:
    """A server for this run; it refuses to be root, so root becomes `postgres`."""
    tools = max(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    as_user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    root = Path(tempfile.mkdtemp(prefix="bench-postgres-"))
    if as_user:
        shutil.chown(root, "postgres", "postgres")
    port = free_port()
    control: list[str | Path] = [*as_user, tools / "pg_ctl", "-D", root / "data", "-s", "-w"]
    subprocess.run(
        [*as_user, tools / "initdb", "-D", root / "data", "-U", "partibus", "--auth=trust"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    subprocess.run(
        [*control, "-o", f"-p {port} -k {root}", "-l", root / "log", "start"], check=True
    )
    try:
        yield f"postgresql://partibus@127.0.0.1:{port}/postgres"
    finally:
        subprocess.run([*control, "-m", "fast", "stop"], check=True)
        shutil.rmtree(root, ignore_errors=True)


class Database:
    """The server under measurement: its processes, and what it takes for a commit."""

    def __init__(self, address: str) -> None:
        self._connection = psycopg.connect(address, autocommit=True)
        backend = self._connection.info.backend_pid
        stat = Path(f"/proc/{backend}/stat").read_text(encoding="ascii")
        self._postmaster = int(stat.rpartition(")")[2].split()[1])
        self._connection.execute("CREATE TABLE IF NOT EXISTS bench_commit (data bytea)")

    def cpu_seconds(self) -> float:
        """Of all its processes since it was started."""
        return gauge.tree_cpu_seconds(self._postmaster)

    def commit_us(self) -> float:
        """The median of a commit of 1 KB, as any client of the database sees it."""
        taken: list[float] = []
        for _ in range(COMMITS):
            begun_s = time.perf_counter()
            self._connection.execute("INSERT INTO bench_commit VALUES (%s)", (bytes(1024),))
            taken.append(1e6 * (time.perf_counter() - begun_s))
        return median(taken)

    def close(self) -> None:
        """Leave nothing behind."""
        self._connection.execute("DROP TABLE bench_commit")
        self._connection.close()


def measure_both(scenario: Scenario, bus: Bus, database: Database, count: int) -> dict[str, Any]:
    """One load, with the CPU of the database beside that of the bus."""
    before_s = database.cpu_seconds()
    numbers: dict[str, Any] = measure(scenario, bus, count)
    used_s = database.cpu_seconds() - before_s
    numbers["database"] = 1e6 * used_s / max(1, round(count * scenario.share))
    return numbers


def run(bus: Bus, database: Database, options: argparse.Namespace) -> None:
    totals: list[tuple[float, float]] = []
    for repeat in range(options.repeats + 1):
        # The first is not counted: caches fill, code warms up.
        count = options.messages if repeat else max(1, options.messages // 20)
        used: list[float] = []
        for scenario in (SEND_1K, RECEIVE_1K, BOTH_1K):
            numbers = measure_both(scenario, bus, database, count)
            used.append(numbers[CPU] + numbers["database"])
            if repeat:
                print(
                    f"{scenario.name:<14} CPU s per million: bus {numbers[CPU]:5.1f}, database "
                    f"{numbers['database']:5.1f}; {numbers[RATE]:,.0f} messages/s"
                )
        if repeat:
            totals.append((used[0] + used[1], used[2]))
            bare_us = database.commit_us()
            sent_us = measure(ONE_BY_ONE, bus, options.messages)[P50]
            measure(Scenario(name="", way=RECEIVE, share=0.01), bus, options.messages)
            print(f"window 1: a send {sent_us:.0f} us, a bare commit {bare_us:.0f} us (p50)")
    later, at_once = (median(column) for column in zip(*totals, strict=True))
    print(f"sent, then received: bus and database {later:.1f} CPU s per million")
    print(f"received as it is sent: bus and database {at_once:.1f} CPU s per million")
    print(f"bus: {bus.version}")


def main() -> None:
    options = arguments()
    options.directory.mkdir(parents=True, exist_ok=True)
    if options.database is None:
        with own_server() as options.database:
            measure_all(options)
    else:
        measure_all(options)


def measure_all(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory(prefix="bench-", dir=options.directory) as root:
        database = Database(options.database)
        bus = Bus(Path(root, "bus"), NAMESPACE, "--store", options.database)
        bus.start()
        try:
            run(bus, database, options)
        finally:
            bus.stop()
            database.close()


if __name__ == "__main__":
    main()
