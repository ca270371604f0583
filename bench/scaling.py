"""One partitioned queue on more and more workers and stores: what each added worker brings.

Owns one scenario, apart from the loads of `python -m bench`: the same 1 KB messages over the
same 16 fragments, with 1, 2 and more workers of one store each. On a machine with fewer cores
than processes a rate says little, so the number to trust is the CPU time of the busiest worker:
a million messages divided by it is what the queue can take once every process has a core of its
own. Run it with `python -m bench.scaling`; docs/internals/workers.md has the cost model.
"""

import argparse
import statistics
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench import gauge
from bench.bus import PARTITIONED, Bus
from bench.scenarios import RECEIVE, SEND, Scenario, jobs
from bench.workers import Workers

CONNECTIONS: Final = 16
"""Enough that the kernel's spreading of connections over workers is nearly even."""
WAYS: Final = (
    Scenario(name="send", way=SEND, window=100, connections=CONNECTIONS),
    Scenario(name="receive", way=RECEIVE, window=100, connections=CONNECTIONS),
)


@dataclass(frozen=True, slots=True)
class Numbers:
    """What one load took, for a million messages."""

    rate: float
    busiest_s: float
    total_s: float

    @property
    def limit(self) -> float:
        """Messages a second with a core for every worker."""
        return 1e6 / self.busiest_s


def measure(bus: Bus, scenario: Scenario, messages: int) -> Numbers:
    """Run one load and see what each worker spent on it."""
    # Without workers the server is one process.
    pids = gauge.children(bus.pid) or [bus.pid]
    before: dict[int, float] = {}

    def read() -> None:
        before.update({pid: gauge.cpu_seconds(pid) for pid in pids})

    with Workers(jobs(scenario, bus, messages)) as load:
        outcomes = load.run(read)
    spent = [1e6 * (gauge.cpu_seconds(pid) - before[pid]) / messages for pid in pids]
    seconds = max(outcome.seconds for outcome in outcomes)
    return Numbers(messages / seconds, max(spent), sum(spent))


def run(workers: int, messages: int, repeats: int, directory: Path) -> dict[str, Numbers]:
    """The median of each number over the repeats, by the name of the load."""
    count = str(workers)
    bus = Bus(directory / count, PARTITIONED, "--workers", count, "--stores", count)
    found: dict[str, list[Numbers]] = {}
    bus.start()
    try:
        for scenario in WAYS:
            measure(bus, scenario, max(CONNECTIONS, messages // 10))  # not counted: warming up
        for _ in range(repeats):
            for scenario in WAYS:
                found.setdefault(scenario.name, []).append(measure(bus, scenario, messages))
    finally:
        bus.stop()
    return {
        name: Numbers(
            *(
                statistics.median(getattr(numbers, field) for numbers in each)
                for field in ("rate", "busiest_s", "total_s")
            )
        )
        for name, each in found.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.scaling", description=__doc__)
    parser.add_argument("--messages", type=int, default=100_000, metavar="N")
    parser.add_argument("--repeats", type=int, default=3, metavar="N")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4], metavar="N")
    options = parser.parse_args()
    Path("build").mkdir(exist_ok=True)
    print("workers  load     CPU s/1M, busiest  CPU s/1M, all  limit/s   rate here/s")
    with tempfile.TemporaryDirectory(prefix="scaling-", dir="build") as root:
        for workers in options.workers:
            results = run(workers, options.messages, options.repeats, Path(root))
            for name, numbers in results.items():
                print(
                    f"{workers:7}  {name:8} {numbers.busiest_s:17.1f}  {numbers.total_s:13.1f}"
                    f"  {numbers.limit:8.0f}  {numbers.rate:11.0f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
