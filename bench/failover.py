"""Two nodes of a cluster on one database: how long lanes are away when a node is lost or drained.

Owns one scenario, apart from the loads: a partitioned queue is filled, the node with half of the
lanes is killed, and the clock runs until the other node serves all of them; then everything is
received and counted. The same with a node that is asked to stop. `python -m bench.failover`; it
starts a database server of its own, which needs Debian's package `postgresql`.
"""

import argparse
import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from bench.bus import PARTITIONED, Bus
from bench.postgres import RECEIVE_1K, SEND_1K, own_server
from bench.scenarios import RATE, measure
from partibus.domain.clock import SystemClock
from partibus.server.nodes.certificates import make_cluster, make_node

LANES: Final = 16
WAIT_S: Final = 120.0
POLL_S: Final = 0.02
_COMES: Final = re.compile(r"lane (\d+) is served here")
_GOES: Final = re.compile(r"lane (\d+) (?:was handed over|is served here no more)")


class Node(Bus):
    """One node, and the lanes that it serves by its log."""

    def lanes(self) -> set[int]:
        """Those it has opened and not given away since."""
        served: set[int] = set()
        for line in (self.directory / "log").read_text(encoding="utf-8").splitlines():
            if found := _COMES.search(line):
                served.add(int(found[1]))
            elif found := _GOES.search(line):
                served.discard(int(found[1]))
        return served

    def end(self, number: signal.Signals) -> None:
        """Send it a signal; what it has written since is not waited for."""
        assert self._process is not None
        self._process.send_signal(number)

    def wait(self) -> None:
        """Return when the process has ended."""
        assert self._process is not None
        self._process.wait(WAIT_S)


def until_served(node: Node, count: int) -> float:
    """How many seconds it takes until a node serves so many lanes."""
    begun_s = time.perf_counter()
    while len(node.lanes()) != count:
        if time.perf_counter() - begun_s > WAIT_S:
            raise RuntimeError(f"{count} lanes are not served after {WAIT_S:.0f} s")
        time.sleep(POLL_S)
    return time.perf_counter() - begun_s


@contextmanager
def two_nodes(root: Path, database: str) -> Iterator[tuple[Node, Node]]:
    make_cluster(root / "tls-0", "node-0", SystemClock())
    make_node(root / "tls-0", root / "tls-1", "node-1", SystemClock())
    nodes: list[Node] = []
    for number in range(2):
        flags = ["--cluster", database, "--cluster-tls", str(root / f"tls-{number}")]
        nodes.append(Node(root / f"node-{number}", PARTITIONED, *flags, "--lanes", str(LANES)))
    lost, stays = nodes
    stays.start()
    lost.start()
    try:
        yield lost, stays
    finally:
        for node in nodes:
            node.end(signal.SIGTERM)
            node.wait()


def run(lost: Node, stays: Node, count: int) -> None:
    until_served(lost, LANES // 2)
    sent = measure(SEND_1K, stays, count)
    print(f"{count:,} messages of 1 KB in {LANES} lanes, sent at {sent[RATE]:,.0f}/s")
    lost.end(signal.SIGKILL)
    print(f"a node is killed: {until_served(stays, LANES):.2f} s until the other serves all lanes")
    lost.wait()
    lost.start()
    until_served(lost, LANES // 2)
    lost.end(signal.SIGTERM)
    print(f"a node is stopped: {until_served(stays, LANES):.2f} s until the other serves all lanes")
    lost.wait()
    measure(RECEIVE_1K, stays, count)
    print(f"all {count:,} were received; {stays.version}")
    lost.start()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.failover", description=__doc__)
    parser.add_argument(
        "--messages", type=int, default=1_000_000, metavar="N", help="(%(default)s)"
    )
    options = parser.parse_args()
    with (
        TemporaryDirectory(prefix="bench-failover-") as root,
        own_server() as database,
        two_nodes(Path(root), database) as (lost, stays),
    ):
        run(lost, stays, options.messages)


if __name__ == "__main__":
    main()
