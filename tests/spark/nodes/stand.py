"""A cluster behind a load balancer, senders that keep books, and the checker.

Owns the namespace, the messages that were attempted and acknowledged, and what must be true of
them in the end: what was acknowledged is there exactly once, and what was refused at most once.
Used by the tests of streams that run while nodes and databases come and go.
"""

import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self

from azure.servicebus import ServiceBusClient, ServiceBusMessage

from adversity.waiting import wait_until
from partibus.client.message import OutgoingMessage
from pyspark_servicebus.access import Access
from pyspark_servicebus.options import source_options
from pyspark_servicebus.sink.delivery import RowMessage, Target
from spark.nodes.balancer import Balancer
from support.json_admin import JsonAdmin
from support.nodes.cluster import ClusterNode, TestCluster
from support.postgres import PostgresServer, new_database

QUEUES: Final = 20
FRAGMENTS: Final = 6
LONG_S: Final = 180.0
"""Far above what anything here takes."""
_AT_ONCE: Final = 10
_PAUSE_S: Final = 0.1
"""Between two batches, so that a small machine has time for the rest."""
_QUEUE: Final = """
[[queue]]
name = "q-{number}"
enable_partitioning = true
partition_count = {fragments}
max_delivery_count = 1000
"""
_ONCE: Final = """
[[queue]]
name = "{name}"
enable_partitioning = true
partition_count = {fragments}
requires_duplicate_detection = true
"""
"""Queues that detect duplicates."""


class Stand:
    """What a test has in its hands."""

    def __init__(self, cluster: TestCluster, balancer: Balancer) -> None:
        self.cluster = cluster
        self.balancer = balancer
        self._next = 0

    def queue(self) -> str:
        """A queue that nobody else uses."""
        self._next += 1
        assert self._next <= QUEUES, "declare more queues"
        return f"q-{self._next - 1}"

    def options(self, queue: str, **given: object) -> dict[str, str]:
        """The options of a source or sink."""
        options = {
            "connectionString": self.balancer.connection_string,
            "queue": queue,
            # On a machine that is very busy nodes lose their leases, and find them again.
            "retryDuration": "180s",
        }
        return options | {name: str(value) for name, value in given.items()}

    def heal(self) -> None:
        """All nodes run, and the lanes are spread evenly."""
        for node in self.cluster.nodes:
            if not node.is_running:
                node.start()
        for number in [node.number for node in self.cluster.nodes]:
            self.cluster.ask(lambda at, number=number: at.resume(number))
        self.cluster.settle()

    # --- nodes ------------------------------------------------------------------------------

    def owner_of(self, queue: str, fragment: int) -> ClusterNode:
        """The node that has a fragment now."""
        lane = JsonAdmin(self._live()).ask("GET", f"/entities/{queue}")["fragments"][fragment]
        number = self.cluster.owners()[lane["store"]]
        return next(n for n in self.cluster.nodes if n.is_running and n.number == number)

    def _live(self) -> ClusterNode:
        return next(node for node in self.cluster.nodes if node.is_running)

    def await_moved(self, number: int) -> None:
        """All lanes have owners, and a node that is gone is none of them."""
        wait_until(
            lambda: len(owners := self.cluster.owners()) == 6 and number not in owners.values(),
            "its lanes have other owners",
            seconds=LONG_S,
        )

    def drain(self, node: ClusterNode) -> None:
        """Every lane of a node is elsewhere."""
        self.cluster.ask(lambda at: at.drain(node.number, 60))

    # --- messages ---------------------------------------------------------------------------

    def fill(self, queue: str, count: int, first: int = 0, size: int = 0) -> list[str]:
        """Numbered messages over all fragments; returns their bodies."""
        bodies = [f"{number:06d}".ljust(size, ".") for number in range(first, first + count)]
        options = source_options(self.options(queue), is_stream=False)
        target = Target(queue, Access(options.credentials, queue, LONG_S), 1 << 20, False, _refuse)
        for body in bodies:
            target.add(RowMessage(OutgoingMessage(body=body.encode()).encode(), None))
        target.flush()
        assert target.accepted == count
        return bodies

    def totals(self, queue: str) -> dict[str, int]:
        """The counts of all fragments. One that has no owner at the moment would count nothing."""
        found: dict[str, Any] = {}

        def all_answer() -> bool:
            found.update(JsonAdmin(self._live()).ask("GET", f"/entities/{queue}"))
            return bool(found["availability"] == "Available")

        wait_until(all_answer, f"all fragments of {queue} answer", seconds=LONG_S)
        totals: dict[str, int] = found["totals"]
        return totals

    def cursor(self, queue: str) -> tuple[int, list[int]]:
        """Of the only cursor of a queue, what it has not passed, and where it stands."""
        found = JsonAdmin(self._live()).ask("GET", f"/entities/{queue}/cursors")["cursors"]
        positions = found[0]["positions"] if found else {}
        lag = found[0]["lag"] if len(positions) == FRAGMENTS else -1
        return lag, [positions.get(str(index), 0) for index in range(FRAGMENTS)]

    def left(self, queue: str) -> tuple[int, int, int]:
        """Active, claimed and retained messages."""
        totals = self.totals(queue)
        return totals["active"], totals["claimed"], totals["retained"]

    def await_left(self, queue: str, *expected: int) -> None:
        wait_until(lambda: self.left(queue) == expected, f"{queue} has {expected}", seconds=LONG_S)


def _refuse(message: RowMessage, condition: str, text: str) -> None:
    raise AssertionError(f"a message was refused: {condition}: {text}")


class Sender:
    """Sends to a queue without end, through the balancer, and keeps the books."""

    def __init__(self, stand: Stand, queue: str) -> None:
        self._connection_string = stand.balancer.connection_string
        self.queue = queue
        self.attempted: set[str] = set()
        self.acknowledged: set[str] = set()
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"sender {queue}")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Return when nothing more is sent."""
        self._ends.set()
        self._thread.join()

    def flows(self, count: int = 50) -> None:
        """Return when so many more are acknowledged."""
        wanted = len(self.acknowledged) + count
        wait_until(
            lambda: len(self.acknowledged) >= wanted, f"{count} more are sent", seconds=LONG_S
        )

    def _run(self) -> None:
        while not self._ends.is_set():
            try:
                with (
                    ServiceBusClient.from_connection_string(
                        self._connection_string, retry_total=0
                    ) as client,
                    client.get_queue_sender(self.queue) as sender,
                ):
                    self._send(sender)
            except Exception:  # noqa: S112 - refused, or unknown: it counts as not acknowledged
                continue

    def _send(self, sender: Any) -> None:
        while not self._ends.is_set():
            texts = [f"{self.queue} {len(self.attempted) + n}" for n in range(_AT_ONCE)]
            self.attempted |= set(texts)
            sender.send_messages([ServiceBusMessage(text) for text in texts], timeout=30)
            self.acknowledged |= set(texts)
            self._ends.wait(_PAUSE_S)

    def check(self, found: Iterable[str]) -> None:
        """Everything that was acknowledged is there once, and nothing twice."""
        check(found, self.acknowledged, self.attempted)


def check(found: Iterable[str], acknowledged: set[str], attempted: set[str]) -> None:
    """What was acknowledged is there once, and what was not at most once."""
    counts = Counter(found)
    doubled = sorted(text for text, count in counts.items() if count > 1)
    lost = sorted(acknowledged - counts.keys())
    assert not doubled, f"{len(doubled)} are there twice, such as {doubled[:5]}"
    assert not lost, f"{len(lost)} are lost, such as {lost[:5]}"
    assert counts.keys() <= attempted, sorted(counts.keys() - attempted)[:5]


@contextmanager
def new_stand(
    place: Path, postgres: PostgresServer, *stores: str, nodes: int = 3
) -> Iterator[Stand]:
    """Nodes over a new database, with a balancer in front."""
    config = place / "namespace.toml"
    queues = [_QUEUE.format(number=n, fragments=FRAGMENTS) for n in range(QUEUES)]
    queues += [_ONCE.format(name=name, fragments=FRAGMENTS) for name in ("once", "direct")]
    config.write_text("".join(queues), encoding="utf-8")
    cluster = TestCluster(place, new_database(postgres.dsn), config, nodes, stores)
    with cluster, Balancer(cluster.nodes) as balancer:
        yield Stand(cluster, balancer)
