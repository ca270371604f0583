"""A cluster of real nodes, on the loopback interface or each on a machine of a network.

Owns the certificates and the processes of the nodes. They share one PostgreSQL database, which the
test brings, and others for messages if it likes. Signals go to a node by its id.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from partibus.domain.clock import SystemClock
from partibus.server.nodes.certificates import make_cluster, make_node
from partibus.server.nodes.operations import Report, cluster_service
from support.postgres import PostgresServer, new_database
from support.server import ServerProcess

if TYPE_CHECKING:
    from support.nodes.network import Machine

DECLARED: Final = """
[[policy]]
name = "RootManageSharedAccessKey"
key = "SAS_KEY_VALUE"
rights = ["Manage", "Send", "Listen"]

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
lock_duration = "PT5S"
max_delivery_count = 1000

[[queue]]
name = "long-locks"
enable_partitioning = true
lock_duration = "PT5M"

[[queue]]
name = "long-sessions"
requires_session = true
lock_duration = "PT5M"

[[topic]]
name = "news"

[[topic.subscription]]
name = "all"
"""
LANES: Final = 6
SETTLED_S: Final = 60.0


class ClusterNode(ServerProcess):
    """One node; its number is given when it joins, a new one with each start."""

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
        self,
        directory: Path,
        database: str,
        config: Path,
        count: int,
        stores: Sequence[str] = (),
        machines: Sequence["Machine"] = (),
    ) -> None:
        self.database = database
        self.stores = stores
        self._machines = machines
        self.nodes = [
            ClusterNode(self._place(directory, number), config, *self._flags(directory, number))
            for number in range(count)
        ]
        for node, machine in zip(self.nodes, machines, strict=False):
            node.runs_on = machine.command
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
        stores = [word for place in self.stores for word in ("--store", place)]
        lanes = ["--lanes", str(LANES), *stores]
        host = ["--host", self._machines[number].address] if self._machines else []
        return ["--cluster", self.database, "--cluster-tls", certificates, *lanes, *host]

    def __enter__(self) -> Self:
        first, *others = self.nodes
        try:
            first.start()
            with ThreadPoolExecutor() as pool:
                list(pool.map(ClusterNode.start, others))
            self.settle()
        except BaseException:  # nobody else would end those that run
            self.__exit__(*sys.exc_info())
            raise
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

        # In a thread of its own: a test with a browser has a loop already.
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(asyncio.run, ask()).result()

    def owners(self) -> dict[int, int]:
        """The node of each lane that a live node has."""
        nodes = [node for node in self.status()["nodes"] if node["state"] != "down"]
        return {lane: node["node"] for node in nodes for lane in node["lanes"]}

    def settle(self) -> None:
        """Return when the lanes are spread evenly over the live nodes and all are served."""
        self.ask(lambda at: at.rebalance(SETTLED_S))


def new_cluster(
    directory: Path,
    postgres: PostgresServer,
    nodes: int,
    stores: Sequence[str] = (),
    machines: Sequence["Machine"] = (),
) -> TestCluster:
    """A cluster in a new database of the server, not started yet."""
    database = new_database(postgres.dsn)
    config = directory / "namespace.toml"
    config.write_text(DECLARED, encoding="utf-8")
    return TestCluster(directory, database, config, nodes, stores, machines)
