"""What operators ask of a cluster: state, drain, rebalance, evict."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from functools import partial

import psycopg
import pytest

from partibus.control.lane_placement import Move
from partibus.control.ownership import NodeAddress
from partibus.control.postgres import lease_rows
from partibus.control.postgres.operations import ClusterOperations
from partibus.control.postgres.ownership import PostgresOwnership
from partibus.control.postgres.session import prepare
from partibus.domain.errors import ArgumentError

pytestmark = pytest.mark.group("postgres")

LANES = 6
Join = Callable[[], Awaitable[PostgresOwnership]]


async def add_lanes(operations: ClusterOperations, lanes: int, databases: int) -> None:
    add = partial(lease_rows.add_lanes, lanes=lanes, databases=databases)
    await operations._session.run(add)


@pytest.fixture
async def operations(database: str) -> AsyncIterator[ClusterOperations]:
    operations = ClusterOperations(database)
    await asyncio.to_thread(prepare, database)
    await add_lanes(operations, LANES, 2)
    yield operations
    await operations.close()


@pytest.fixture
async def join(database: str, operations: ClusterOperations) -> AsyncIterator[Join]:
    """Nodes that do what they should."""
    async with AsyncExitStack() as stack:

        async def make() -> PostgresOwnership:
            node = PostgresOwnership(database, NodeAddress("127.0.0.1", 7000, "9.9"))
            changed = asyncio.Event()
            node.on_change = changed.set
            await node.start()
            stack.push_async_callback(node.stop)
            task = asyncio.create_task(serve(node, changed))
            stack.push_async_callback(end, task)
            return node

        yield make


async def serve(node: PostgresOwnership, changed: asyncio.Event) -> None:
    while True:
        changed.clear()
        for lane in node.owned() - node.wanted():
            await node.release(lane)
        for lane in node.wanted() - node.owned():
            await node.acquire(lane)
        await changed.wait()


async def end(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def test_the_state_names_nodes_lanes_and_owners(
    operations: ClusterOperations, join: Join
) -> None:
    await join()
    status = await operations.wait_for(lambda status: status.is_settled)
    (node,) = status.nodes
    assert (node.number, node.address.version, node.alive, node.draining) == (1, "9.9", True, False)
    assert status.lanes_of(1) == list(range(LANES))
    assert [lane.database for lane in status.lanes] == [0, 1] * 3


async def test_lanes_of_a_node_that_is_not_heard_of_have_no_owner(
    operations: ClusterOperations, database: str
) -> None:
    node = PostgresOwnership(database, NodeAddress("127.0.0.1", 7000))
    await node.start()
    assert await node.acquire(0)
    assert (await operations.status()).lanes_of(node.node) == [0]
    await node._listening.stop()
    assert node._task is not None
    await end(node._task)
    with psycopg.connect(database) as connection:
        connection.execute("UPDATE partibus_cluster.node SET heartbeat = heartbeat - interval '9s'")
    status = await operations.status()
    assert not status.nodes[0].alive
    assert status.lanes[0].owner is None
    assert await operations.evict(node.node) == []
    assert (await operations.status()).nodes == []
    await node.stop()


async def test_a_drained_node_gives_its_lanes_away_and_takes_them_again(
    operations: ClusterOperations, join: Join
) -> None:
    one, two = await join(), await join()
    await operations.wait_for(lambda status: status.is_settled)
    await operations.drain(one.node)
    status = await operations.wait_for(lambda status: not status.lanes_of(one.node))
    status = await operations.wait_for(lambda status: status.is_settled)
    assert len(status.lanes_of(two.node)) == LANES
    await operations.resume(one.node)
    status = await operations.wait_for(
        lambda status: status.is_settled and bool(status.lanes_of(one.node))
    )
    assert len(status.lanes_of(one.node)) == LANES // 2


async def test_the_last_node_that_takes_lanes_is_not_drained(
    operations: ClusterOperations, join: Join
) -> None:
    one, two = await join(), await join()
    await operations.drain(one.node)
    with pytest.raises(ArgumentError, match="No other node can take"):
        await operations.drain(two.node)


async def test_an_unknown_node_is_refused_with_those_there_are(
    operations: ClusterOperations, join: Join
) -> None:
    await join()
    for ask in (operations.drain, operations.resume, operations.evict):
        with pytest.raises(ArgumentError, match="no node 9; the nodes of the cluster are: 1"):
            await ask(9)


async def test_a_live_node_is_evicted_only_by_force(
    operations: ClusterOperations, join: Join
) -> None:
    one = await join()
    await operations.wait_for(lambda status: status.is_settled)
    with pytest.raises(ArgumentError, match="is alive"):
        await operations.evict(one.node)
    assert await operations.evict(one.node, alive_too=True) == list(range(LANES))
    status = await operations.status()
    assert status.nodes == []
    assert all(lane.owner is None for lane in status.lanes)


async def test_a_rebalance_says_what_is_to_move(
    operations: ClusterOperations, database: str
) -> None:
    one = PostgresOwnership(database, NodeAddress("127.0.0.1", 7000))
    two = PostgresOwnership(database, NodeAddress("127.0.0.1", 7001))
    await one.start()
    for lane in range(LANES):
        assert await one.acquire(lane)
    await two.start()
    assert await operations.rebalance() == [Move(5, 1, 2), Move(4, 1, 2), Move(3, 1, 2)]
    await two.stop()
    await one.stop()


async def test_lanes_that_are_there_stay_in_their_database(
    operations: ClusterOperations,
) -> None:
    await add_lanes(operations, LANES + 3, 3)
    databases = [lane.database for lane in (await operations.status()).lanes]
    assert databases == [0, 1, 0, 1, 0, 1, 0, 1, 2]


async def test_what_would_move_is_told_and_nothing_moves(
    operations: ClusterOperations, join: Join
) -> None:
    one, two = await join(), await join()
    status = await operations.wait_for(lambda status: status.is_settled)
    held = status.lanes_of(one.node)
    drained = await operations.drain(one.node, dry_run=True)
    assert sorted(move.lane for move in drained) == held
    assert {(move.origin, move.target) for move in drained} == {(one.node, two.node)}
    with pytest.raises(ArgumentError, match="is alive"):
        await operations.heirs(one.node)
    heirs = await operations.heirs(one.node, alive_too=True)
    assert heirs == [Move(lane, one.node, two.node) for lane in held]
    assert await operations.rebalance(dry_run=True) == []
    after = await operations.status()
    assert [node.draining for node in after.nodes] == [False, False]
    assert after.lanes_of(one.node) == held
