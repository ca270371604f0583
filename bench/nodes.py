"""What the hop between nodes and a synchronous replica of the database cost.

Owns one scenario, apart from the loads: the same load on a node that has all lanes, on a node that
has none and passes everything on to another, and on the first with a standby without which the
database answers no commit. CPU seconds are those of all nodes and of every process of the
databases. With `--leases` the table of leases instead, filled with nodes that do not exist, and the
statements that every node sends to it (docs/guides/sizing.md). `python -m bench.nodes`; it starts
database servers of its own, which needs Debian's package `postgresql`.
"""

import argparse
import asyncio
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final, LiteralString

import psycopg

from bench import gauge
from bench.bus import PARTITIONED
from bench.failover import LANES, Node, until_served
from bench.peers import free_port
from bench.postgres import ONE_BY_ONE, own_server
from bench.scenarios import P50, RECEIVE, SEND, Scenario, measure
from partibus.control.ownership import NodeAddress
from partibus.control.postgres import lease_rows
from partibus.control.postgres.session import AsyncConnection, ControlSession, prepare
from partibus.domain.clock import SystemClock
from partibus.server.nodes.certificates import make_cluster, make_node
from partibus.server.nodes.operations import cluster_service

SEND_1K: Final = Scenario(name="send 1 KB", way=SEND)
RECEIVE_1K: Final = Scenario(name="receive 1 KB", way=RECEIVE)
RECEIVE_LATER: Final = Scenario(name="", way=RECEIVE, share=ONE_BY_ONE.share)
DRAIN_S: Final = 60.0
TABLES: Final = (3, 100, 1000)
"""So many nodes in the table of leases."""
LANES_PER_NODE: Final = 4
LEASE_COUNT: Final = 1000
"""Renewals that are timed, and ten looks for each hundred."""


class Databases:
    """The servers behind the nodes: what they use, and what they write."""

    def __init__(self, *addresses: str) -> None:
        self._connections = [psycopg.connect(each, autocommit=True) for each in addresses]
        self._postmasters = [_parent(each.info.backend_pid) for each in self._connections]

    def cpu_seconds(self) -> float:
        """Of all processes of all servers."""
        return sum(map(gauge.tree_cpu_seconds, self._postmasters))

    def wal_bytes(self) -> int:
        """What the first has written to its log since it was made."""
        query: LiteralString = "SELECT pg_current_wal_lsn() - '0/0'::pg_lsn"
        row = self._connections[0].execute(query).fetchone()
        assert row is not None
        return int(row[0])

    def connection_count(self) -> int:
        """How many clients the first has, this one not counted."""
        query: LiteralString = (
            "SELECT count(*) - 1 FROM pg_stat_activity WHERE backend_type = 'client backend'"
        )
        row = self._connections[0].execute(query).fetchone()
        assert row is not None
        return int(row[0])

    def close(self) -> None:
        for connection in self._connections:
            connection.close()


def _parent(pid: int) -> int:
    stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
    return int(stat.rpartition(")")[2].split()[1])


@contextmanager
def standby_of(address: str) -> Iterator[str]:
    """A copy of a server that follows it; meanwhile no commit is answered without it."""
    tools = max(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    as_user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    root = Path(tempfile.mkdtemp(prefix="bench-standby-"))
    if as_user:
        shutil.chown(root, "postgres", "postgres")
    port = free_port()
    copy: list[str | Path] = [
        *as_user,
        tools / "pg_basebackup",
        "-D",
        root / "data",
        "-d",
        address,
        "-R",
    ]
    subprocess.run([*copy, "-c", "fast"], check=True)
    control: list[str | Path] = [*as_user, tools / "pg_ctl", "-D", root / "data", "-s", "-w"]
    subprocess.run(
        [*control, "-o", f"-p {port} -k {root}", "-l", root / "log", "start"], check=True
    )
    with psycopg.connect(address, autocommit=True) as primary:
        primary.execute("SET synchronous_commit = local")
        primary.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        primary.execute("SELECT pg_reload_conf()")
        try:
            yield f"postgresql://partibus@127.0.0.1:{port}/postgres"
        finally:
            primary.execute("ALTER SYSTEM RESET synchronous_standby_names")
            primary.execute("SELECT pg_reload_conf()")
            subprocess.run([*control, "-m", "fast", "stop"], check=True)
            shutil.rmtree(root, ignore_errors=True)


def run(name: str, nodes: list[Node], databases: Databases, count: int, repeats: int) -> None:
    """Loads through the first node; the others have a part in it."""
    used: list[tuple[float, float, float, float]] = []
    for repeat in range(repeats + 1):
        # The first is not counted: caches fill, code warms up.
        messages = count if repeat else max(1, count // 10)
        before_s = sum(gauge.cpu_seconds(node.pid) for node in nodes)
        before_database_s, before_bytes = databases.cpu_seconds(), databases.wal_bytes()
        measure(SEND_1K, nodes[0], messages)
        measure(RECEIVE_1K, nodes[0], messages)
        nodes_s = sum(gauge.cpu_seconds(node.pid) for node in nodes) - before_s
        database_s = databases.cpu_seconds() - before_database_s
        wal_bytes = databases.wal_bytes() - before_bytes
        sent_us = measure(ONE_BY_ONE, nodes[0], messages)[P50]
        measure(RECEIVE_LATER, nodes[0], messages)
        if repeat:
            each = 1e6 / messages
            used.append((nodes_s * each, database_s * each, wal_bytes / messages, sent_us))
    nodes_cpu, database_cpu, wal, sent = (median(column) for column in zip(*used, strict=True))
    print(
        f"{name:<26} CPU s per million: nodes {nodes_cpu:5.1f}, database {database_cpu:5.1f}; WAL "
        f"{wal:,.0f} bytes a message; a send at window 1 {sent:,.0f} us (p50); "
        f"{databases.connection_count()} connections",
        flush=True,
    )


@contextmanager
def cluster(root: Path, database: str, count: int) -> Iterator[list[Node]]:
    """Nodes that were started one after the other: the first has the key of the namespace."""
    root.mkdir()
    make_cluster(root / "tls-0", "node-0", SystemClock())
    nodes: list[Node] = []
    for number in range(count):
        if number:
            make_node(root / "tls-0", root / f"tls-{number}", f"node-{number}", SystemClock())
        flags = ["--cluster", database, "--cluster-tls", str(root / f"tls-{number}")]
        nodes.append(Node(root / f"node-{number}", PARTITIONED, *flags, "--lanes", str(LANES)))
        nodes[-1].start()
    try:
        yield nodes
    finally:
        for node in nodes:
            node.end(signal.SIGTERM)
            node.wait()


async def drain(database: str) -> None:
    """Have the first node give all lanes away; it goes on serving clients."""
    async with cluster_service(database) as service:
        await service.drain(1, DRAIN_S)


async def fill(connection: AsyncConnection, nodes: int) -> None:
    """So many nodes, all alive for longer than this takes, with lanes that are theirs."""
    await lease_rows.add_lanes(connection, LANES_PER_NODE * nodes, 1)
    await connection.execute("DELETE FROM partibus_cluster.node")
    await connection.execute(
        "INSERT INTO partibus_cluster.node (host, port, version, name, heartbeat)"
        " SELECT 'node-' || n || '.example.org', 5675, '0.1.0', 'node-' || n, clock_timestamp()"
        " FROM generate_series(1, %s) AS n",
        (nodes,),
    )
    await connection.execute(
        "UPDATE partibus_cluster.lane SET owner = node.number FROM (SELECT number,"
        " row_number() OVER (ORDER BY number) - 1 AS nth FROM partibus_cluster.node) AS node"
        " WHERE lane.number % %s = node.nth".replace(" % ", " %% "),
        (nodes,),
    )


async def timed(
    session: ControlSession,
    work: Callable[[AsyncConnection], Awaitable[object]],
    databases: Databases,
    count: int,
) -> tuple[float, float]:
    """Milliseconds of one, and of those the CPU of the database."""
    await session.run(work)
    before_s, begun_s = databases.cpu_seconds(), time.perf_counter()
    for _ in range(count):
        await session.run(work)
    taken_s = time.perf_counter() - begun_s
    return 1000 * taken_s / count, 1000 * (databases.cpu_seconds() - before_s) / count


async def measure_leases(database: str, count: int) -> None:
    await asyncio.to_thread(prepare, database)
    session = ControlSession(database, "bench")
    await session.run(partial(lease_rows.join, address=NodeAddress("127.0.0.1", 1)))
    databases = Databases(database)
    for nodes in TABLES:
        await session.run(partial(fill, nodes=nodes))
        one = (await session.run(lease_rows.look)).nodes[0].number
        renew = await timed(session, partial(lease_rows.renew, node=one), databases, count)
        look = await timed(session, lease_rows.look, databases, max(1, count // 10))
        print(
            f"{nodes:>5} nodes, {LANES_PER_NODE * nodes:>5} lanes: a renewal {renew[0]:.2f} ms, "
            f"database CPU {renew[1]:.2f} ms; a look {look[0]:.2f} ms, database CPU "
            f"{look[1]:.2f} ms",
            flush=True,
        )
    databases.close()
    await session.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.nodes", description=__doc__)
    parser.add_argument("--messages", type=int, default=100_000, metavar="N", help="(%(default)s)")
    parser.add_argument("--repeats", type=int, default=3, metavar="N", help="(%(default)s)")
    parser.add_argument("--leases", action="store_true", help="the table of leases instead")
    options = parser.parse_args()
    if options.leases:
        with own_server() as database:
            asyncio.run(measure_leases(database, LEASE_COUNT))
        return
    with tempfile.TemporaryDirectory(prefix="bench-nodes-") as root:
        measure_one(Path(root, "one"), options)
        measure_two(Path(root, "two"), options)


def measure_one(root: Path, options: argparse.Namespace) -> None:
    """A node alone, then with a standby of its database."""
    with own_server() as database, cluster(root, database, 1) as nodes:
        until_served(nodes[0], LANES)
        alone = Databases(database)
        run("no hop", nodes, alone, options.messages, options.repeats)
        alone.close()
        with standby_of(database) as standby:
            both = Databases(database, standby)
            run("no hop, a replica", nodes, both, options.messages, options.repeats)
            both.close()
        print(f"nodes: {nodes[0].version}")


def measure_two(root: Path, options: argparse.Namespace) -> None:
    """Two nodes, of which the one with the clients has no lane."""
    with own_server() as database, cluster(root, database, 2) as nodes:
        until_served(nodes[1], LANES // 2)
        asyncio.run(drain(database))
        until_served(nodes[1], LANES)
        databases = Databases(database)
        run("everything over the hop", nodes, databases, options.messages, options.repeats)
        databases.close()


if __name__ == "__main__":
    main()
