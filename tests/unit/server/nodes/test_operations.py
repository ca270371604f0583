"""An operator looks at a cluster, drains and evicts its nodes, and spreads lanes."""

import asyncio
import json
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from partibus.cli.verb_table import command_tree
from partibus.control.ownership import NodeAddress
from partibus.control.postgres.lease_rows import add_lanes
from partibus.control.postgres.ownership import PostgresOwnership
from partibus.control.postgres.session import ControlSession, prepare
from partibus.domain.clock import SystemClock
from partibus.domain.errors import ArgumentError, OperationTimeout
from partibus.server.nodes.certificates import make_cluster
from partibus.server.nodes.operations import ClusterService, cluster_service

pytestmark = pytest.mark.group("postgres")


class Node:
    """A node that follows its leases and serves nothing."""

    def __init__(self, database: str, port: int) -> None:
        address = NodeAddress("127.0.0.1", port, "1.2", f"name-{port}")
        self.ownership = PostgresOwnership(database, address)
        self.ownership.on_change = self._look
        self._work: set[asyncio.Task[None]] = set()

    def _look(self) -> None:
        task = asyncio.ensure_future(self._follow())
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    async def _follow(self) -> None:
        owned, wanted = self.ownership.owned(), self.ownership.wanted()
        for lane in owned - wanted:
            await self.ownership.release(lane)
        for lane in wanted - owned:
            await self.ownership.acquire(lane)

    async def start(self) -> None:
        await self.ownership.start()
        self._look()

    async def stop(self) -> None:
        await self.ownership.stop()
        for task in list(self._work):
            task.cancel()


@pytest.fixture
async def nodes(database: str) -> AsyncIterator[list[Node]]:
    await asyncio.to_thread(prepare, database)
    session = ControlSession(database, "test")
    await session.run(partial(add_lanes, lanes=6, databases=1))
    await session.close()
    made = [Node(database, port) for port in (7001, 7002)]
    for node in made:
        await node.start()
    yield made
    for node in made:
        await node.stop()


@pytest.fixture
async def service(nodes: list[Node], database: str) -> AsyncIterator[ClusterService]:
    async with cluster_service(database) as made:
        await made.rebalance(30)
        yield made


async def test_what_the_status_shows(service: ClusterService) -> None:
    report = await service.status()
    assert (report["lanes"], report["unowned"]) == (6, [])
    assert [(n["node"], n["state"], n["address"]) for n in report["nodes"]] == [
        (1, "up", "127.0.0.1:7001"),
        (2, "up", "127.0.0.1:7002"),
    ]
    assert sorted(lane for n in report["nodes"] for lane in n["lanes"]) == list(range(6))
    assert [len(n["lanes"]) for n in report["nodes"]] == [3, 3]


async def test_a_drained_node_has_no_lanes_until_that_is_undone(service: ClusterService) -> None:
    report = await service.drain(1, 30)
    assert [(n["state"], len(n["lanes"])) for n in report["nodes"]] == [("draining", 0), ("up", 6)]
    await service.resume(1)
    report = await service.rebalance(30)
    assert [(n["state"], len(n["lanes"])) for n in report["nodes"]] == [("up", 3), ("up", 3)]


async def test_an_evicted_node_learns_of_it(service: ClusterService, nodes: list[Node]) -> None:
    report = await service.evict(2, force=True)
    assert [n["node"] for n in report["nodes"]] == [1]
    while not nodes[1].ownership.evicted:  # noqa: ASYNC110  # its own renewal is waited for
        await asyncio.sleep(0.01)
    assert nodes[1].ownership.owned() == frozenset()


async def test_what_takes_too_long_and_who_is_unknown(
    service: ClusterService, nodes: list[Node]
) -> None:
    with pytest.raises(ArgumentError, match="no node 9"):
        await service.evict(9, force=False)
    nodes[0].ownership.on_change = None  # it hands nothing over
    with pytest.raises(OperationTimeout, match="not drained after"):
        await service.drain(1, 0.2)


async def test_a_node_is_found_by_the_name_in_its_certificate(
    service: ClusterService, database: str, tmp_path: Path
) -> None:
    assert await service.number_of("name-7002") == 2
    report = await service.status()
    assert [node["name"] for node in report["nodes"]] == ["name-7001", "name-7002"]
    with pytest.raises(ArgumentError, match="The live nodes are: name-7001, name-7002"):
        await service.number_of("other")
    make_cluster(tmp_path, "name-7002", SystemClock())
    run = partial(CliRunner().invoke, command_tree(["cluster"]))
    words = ["cluster", "drain", "--this-node", "--cluster-tls", str(tmp_path)]
    told = await asyncio.to_thread(run, [*words, "--json", "--cluster", database])
    assert [node["state"] for node in json.loads(told.stdout)["nodes"]] == ["up", "draining"]
    told = await asyncio.to_thread(run, ["cluster", "drain", "--cluster", database])
    assert told.exit_code == 2 and "--this-node" in told.stderr


async def test_the_verbs(service: ClusterService, database: str) -> None:
    run = partial(CliRunner().invoke, command_tree(["cluster"]))
    told = await asyncio.to_thread(run, ["cluster", "status", "--cluster", database, "--json"])
    assert [node["node"] for node in json.loads(told.stdout)["nodes"]] == [1, 2]
    told = await asyncio.to_thread(run, ["cluster", "drain", "2", "--cluster", database])
    assert told.exit_code == 0 and "draining" in told.stdout
    told = await asyncio.to_thread(run, ["cluster", "evict", "7", "--yes", "--cluster", database])
    assert told.exit_code == 2 and "no node 7" in told.stderr
