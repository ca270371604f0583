"""A cluster that stands where a test expects one server: `make test-cluster`.

Owns what a single server's flags, start, restart and end mean for three nodes over two databases.
The test speaks to the first node; the lanes of what it uses are spread over all of them. Made by
`ServerProcess` in place of itself, while `PARTIBUS_TESTS_ON_CLUSTER` is set.
"""

import asyncio
import shutil
import sys
import tempfile
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import ClassVar, Final

from partibus.domain.clock import SystemClock
from partibus.server.nodes.certificates import make_cluster, make_node
from partibus.server.nodes.operations import cluster_service
from support.postgres import PostgresServer, new_database
from support.server import ServerProcess

PATIENT_NODE: Final = Path(__file__).with_name("patient_node.py")
NODES: Final = 3
DATABASES: Final = 2
LANES: Final = 6
# Three nodes start where a test counts on one server.
READY_SECONDS_MAX: Final = 180.0
SETTLED_S: Final = 180.0


class _Node(ServerProcess):
    """One of the further nodes; it logs beside the first."""

    def __init__(self, directory: Path, log: Path, config: Path, *flags: str) -> None:
        super().__init__(directory, config, *flags)
        self.log = log
        self.needs_key = False


class ClusterServer(ServerProcess):
    """The first node of a cluster, with which the others start and end."""

    postgres: PostgresServer | None = None
    """The server of the databases, for all clusters of this process of the tests."""
    _known: ClassVar[dict[Path, list[str]]] = {}
    """By directory: a server that is started there again finds what the one before has left."""

    def __init__(self, directory: Path, config: Path, *flags: str) -> None:
        shared = [*_of_cluster(flags), *self._databases(directory)]
        super().__init__(directory, config, *shared, "--cluster-tls", _certificates(0))
        self._others = [
            _Node(
                _place(directory, number),
                self.log,
                config,
                *shared,
                "--cluster-tls",
                _certificates(number),
            )
            for number in range(1, NODES)
        ]
        for node in (self, *self._others):
            node.program = [sys.executable, "-P", str(PATIENT_NODE)]
            node.ready_seconds_max = READY_SECONDS_MAX

    def _databases(self, directory: Path) -> list[str]:
        assert self.postgres is not None, "the conftest of the conformance tests starts it"
        self._is_new = directory not in self._known
        if self._is_new:
            self._known[directory] = [new_database(self.postgres.dsn) for _ in range(1 + DATABASES)]
        self._control, *stores = self._known[directory]
        return ["--cluster", self._control, *(w for at in stores for w in ("--store", at))]

    def start(self) -> None:
        """Start all nodes; returns when the lanes are spread over them."""
        try:
            if not self._is_new:
                self._ask(self._evict_all)
            self._is_new = False
            super().start()
            self._each(ServerProcess.start)
            self._ask(self._settle)
        except BaseException:
            self._kill_what_runs()  # nobody else would: the test has no server yet
            raise

    def _kill_what_runs(self) -> None:
        self._each(ServerProcess.sigkill)
        if self.is_running:
            super().sigkill()

    def _ask(self, question: Callable[[], Coroutine[None, None, None]]) -> None:
        """As an operator; in a thread, since the caller may be within a loop."""
        with ThreadPoolExecutor(1) as pool:
            pool.submit(lambda: asyncio.run(question())).result()

    async def _settle(self) -> None:
        async with cluster_service(self._control) as service:
            await service.rebalance(SETTLED_S)

    async def _evict_all(self) -> None:
        """Nodes that were killed hold their lanes for as long as a lease lasts."""
        async with cluster_service(self._control) as service:
            for node in (await service.status())["nodes"]:
                await service.evict(node["node"], force=True)

    def sigkill(self) -> None:
        """The power cut for the whole cluster; the databases stay."""
        self._each(ServerProcess.sigkill)
        super().sigkill()

    def stop(self) -> int:
        """The polite end of all; returns the exit code of the first."""
        self._each(ServerProcess.stop)
        return super().stop()

    def _each(self, work: Callable[[ServerProcess], object]) -> None:
        is_starting = work is ServerProcess.start
        nodes = [node for node in self._others if node.is_running != is_starting]
        with ThreadPoolExecutor() as pool:
            list(pool.map(work, nodes))


def _of_cluster(flags: tuple[str, ...]) -> list[str]:
    """A test that wants several stores has as many lanes, one that wants several workers has
    the nodes, and what it wants in memory is in the databases."""
    words = [word for word in flags if word != "--memory"]
    if "--workers" in words:
        at = words.index("--workers")
        del words[at : at + 2]
    if "--stores" in words:
        words[words.index("--stores")] = "--lanes"
        return words
    return [*words, "--lanes", str(LANES)]


def _place(directory: Path, number: int) -> Path:
    place = directory / f"node-{number}"
    place.mkdir(exist_ok=True)
    return place


@cache
def _authority() -> Path:
    """Certificates for all clusters of this process: they differ by their databases."""
    place = Path(tempfile.mkdtemp(prefix="pb-cluster-tls-"))
    make_cluster(place / "0", "node-0", SystemClock())
    for number in range(1, NODES):
        make_node(place / "0", place / str(number), f"node-{number}", SystemClock())
    return place


def _certificates(number: int) -> str:
    return str(_authority() / str(number))


def forget_certificates() -> None:
    """At the end of the tests."""
    if _authority.cache_info().currsize:
        shutil.rmtree(_authority())
        _authority.cache_clear()
