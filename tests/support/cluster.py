"""A cluster of real nodes on the loopback interface, and the traffic that proves it.

Owns the certificates and the processes of the nodes, and a ledger of what clients were promised.
Nodes share one PostgreSQL database, which the test brings. Signals go to a node by its id.
"""

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import psycopg
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusError

from adversity.waiting import wait_until
from partibus.domain.clock import SystemClock
from partibus.server.nodes.certificates import make_cluster, make_node
from partibus.server.nodes.operations import Report, cluster_service
from support.postgres import PostgresServer
from support.server import ServerProcess

DECLARED: Final = """
[[queue]]
name = "parts"
enable_partitioning = true
lock_duration = "PT5S"
max_delivery_count = 1000

[[queue]]
name = "plain"
lock_duration = "PT5S"
max_delivery_count = 1000

[[queue]]
name = "sessions"
requires_session = true

[[topic]]
name = "news"

[[topic.subscription]]
name = "all"
"""
LANES: Final = 6
SETTLED_S: Final = 60.0
_numbers: Final = count(1)


class ClusterNode(ServerProcess):
    """One node; its number is given when it joins, anew with each start."""

    def pause(self) -> None:
        """The process stands still, as in a virtual machine that is frozen."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """It runs on, and does not know how long it stood still."""
        os.kill(self.pid, signal.SIGCONT)

    @property
    def number(self) -> int:
        """Its number in the cluster, as it was told last."""
        return int(self.log_text().rpartition("joined the cluster as node ")[2].split()[0])


class TestCluster:
    """Nodes that were started together; those that run at the end are stopped."""

    __test__ = False

    def __init__(
        self, directory: Path, database: str, config: Path, count: int, stores: Sequence[str] = ()
    ) -> None:
        self.database = database
        self._stores = stores
        self.nodes = [
            ClusterNode(self._place(directory, number), config, *self._flags(directory, number))
            for number in range(count)
        ]
        authority = directory / "tls-0"
        make_cluster(authority, "node-0", SystemClock())
        for number in range(1, count):
            make_node(authority, directory / f"tls-{number}", f"node-{number}", SystemClock())

    def _place(self, directory: Path, number: int) -> Path:
        place = directory / f"node-{number}"
        place.mkdir()
        return place

    def _flags(self, directory: Path, number: int) -> list[str]:
        certificates = str(directory / f"tls-{number}")
        stores = [word for place in self._stores for word in ("--store", place)]
        lanes = ["--lanes", str(LANES), *stores]
        return ["--cluster", self.database, "--cluster-tls", certificates, *lanes]

    def __enter__(self) -> Self:
        first, *others = self.nodes
        first.start()
        with ThreadPoolExecutor() as pool:
            list(pool.map(ClusterNode.start, others))
        self.settle()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for node in self.nodes:
            if node.is_running:
                node.resume()
                node.stop()
        if error is not None:
            for node in self.nodes:
                print(f"--- {node.log}\n{node.log_text()[-6000:]}")

    def status(self) -> Report:
        """Nodes and lanes, as the database has them."""
        return self.ask(lambda at: at.status())

    def ask(self, question: Callable[[Any], Any]) -> Report:
        """What an operator asks."""

        async def ask() -> Report:
            async with cluster_service(self.database) as at:
                answer: Report = await question(at)
                return answer

        return asyncio.run(ask())

    def owners(self) -> dict[int, int]:
        """The node of each lane that a live node has."""
        nodes = [node for node in self.status()["nodes"] if node["state"] != "down"]
        return {lane: node["node"] for node in nodes for lane in node["lanes"]}

    def settle(self) -> None:
        """Return when the lanes are spread evenly over the live nodes and all are served."""
        self.ask(lambda at: at.rebalance(SETTLED_S))


def new_database(postgres: PostgresServer) -> str:
    """The address of an empty database."""
    name = f"bus_{next(_numbers)}"
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return postgres.dsn.rpartition("/")[0] + f"/{name}"


def new_cluster(
    directory: Path, postgres: PostgresServer, nodes: int, stores: Sequence[str] = ()
) -> TestCluster:
    """A cluster in a new database of the server, not started yet."""
    database = new_database(postgres)
    config = directory / "namespace.toml"
    config.write_text(DECLARED, encoding="utf-8")
    return TestCluster(directory, database, config, nodes, stores)


class Traffic:
    """Sends and receives without end, each through its own node, and keeps the books."""

    def __init__(self, queue: str, sender: ClusterNode, receiver: ClusterNode) -> None:
        self._queue = queue
        self.acknowledged: set[str] = set()
        self.received: list[str] = []
        self.failed_sends: list[Exception] = []
        """What a client without retries of its own had as answers."""
        self.failed_receives: list[Exception] = []
        self._ends = threading.Event()
        self._stops_sending = threading.Event()
        self._threads = [
            threading.Thread(
                target=self._run, args=(sender, self._send, self._stops_sending, self.failed_sends)
            ),
            threading.Thread(
                target=self._run, args=(receiver, self._receive, self._ends, self.failed_receives)
            ),
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stops_sending.set()
        self._ends.set()
        for thread in self._threads:
            thread.join()

    def flows(self, count: int = 30) -> None:
        """Return when so many more were sent and received."""
        sent, seen = len(self.acknowledged) + count, len(self.received) + count
        wait_until(lambda: len(self.acknowledged) >= sent, f"{count} more are acknowledged")
        wait_until(lambda: len(self.received) >= seen, f"{count} more are received")

    def check(self, *others: "Traffic") -> None:
        """Everything that was acknowledged is received, and errors are retryable. Those that
        share the queue are checked together."""
        together = (self, *others)
        for one in together:
            one.stop_sending()
        promised = {text for one in together for text in one.acknowledged}
        wait_until(
            lambda: promised <= {text for one in together for text in one.received},
            "all that was promised is received",
        )
        errors = [e for one in together for e in one.failed_sends + one.failed_receives]
        strange = [error for error in errors if not is_retryable(error)]
        assert not strange, strange

    def stop_sending(self) -> None:
        """Return when nothing more is sent."""
        self._stops_sending.set()
        self._threads[0].join()

    def _run(
        self,
        node: ClusterNode,
        work: Callable[[ServiceBusClient], None],
        end: threading.Event,
        errors: list[Exception],
    ) -> None:
        while not end.is_set():
            try:
                with ServiceBusClient.from_connection_string(
                    node.connection_string, retry_total=0
                ) as client:
                    work(client)
            except Exception as error:
                errors.append(error)

    def _send(self, client: ServiceBusClient) -> None:
        with client.get_queue_sender(self._queue) as sender:
            while not self._stops_sending.is_set():
                text = f"{id(self)}-{len(self.acknowledged)}-{len(self.failed_sends)}"
                sender.send_messages(ServiceBusMessage(text), timeout=20)
                self.acknowledged.add(text)

    def _receive(self, client: ServiceBusClient) -> None:
        with client.get_queue_receiver(self._queue) as receiver:
            while not self._ends.is_set():
                for message in receiver.receive_messages(20, max_wait_time=1):
                    self.received.append(str(message))
                    receiver.complete_message(message)


def is_retryable(error: Exception) -> bool:
    """Whether the SDK would have tried again by itself."""
    return isinstance(error, ServiceBusError) and bool(error._retryable)
