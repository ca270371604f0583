"""Leases in a real database: who gets a lane, who loses it, and by whose clock."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import psycopg
import pytest

from partibus.control.ownership import SERVE_MS, NodeAddress, Ownership
from partibus.control.postgres import lease_rows
from partibus.control.postgres.ownership import PostgresOwnership
from partibus.control.postgres.session import AsyncConnection, ControlSession, prepare
from partibus.domain.clock import Clock
from partibus.domain.errors import ConfigError
from partibus.testing.clock import ManualClock
from support.postgres import PostgresServer

pytestmark = pytest.mark.group("postgres")

LANES = 6
Join = Callable[..., Awaitable[PostgresOwnership]]


@pytest.fixture
async def join(database: str) -> AsyncIterator[Join]:
    await asyncio.to_thread(prepare, database)
    session = ControlSession(database, "test")
    await session.run(lambda connection: lease_rows.add_lanes(connection, LANES, 2))
    await session.close()
    async with AsyncExitStack() as stack:

        async def make(clock: Clock | None = None, port: int = 7000) -> PostgresOwnership:
            node = PostgresOwnership(database, NodeAddress("127.0.0.1", port, "9.9"), clock)
            await node.start()
            stack.push_async_callback(node.stop)
            return node

        yield make


async def until(node: PostgresOwnership, holds: Callable[[], bool]) -> None:
    """Wait for a change after which it holds."""
    changed = asyncio.Event()
    node.on_change = changed.set
    while not holds():
        await changed.wait()
        changed.clear()
    node.on_change = None


def age(database: str, node: int, seconds: float) -> None:
    """As if the node had last been heard of so much earlier."""
    with psycopg.connect(database) as connection:
        connection.execute(
            "UPDATE partibus_cluster.node SET heartbeat = heartbeat - make_interval(secs => %s)"
            " WHERE number = %s",
            (seconds, node),
        )


async def settle(nodes: list[PostgresOwnership], counts: list[int]) -> None:
    """The nodes do what they should until they hold so many lanes each."""
    changed = asyncio.Event()
    for node in nodes:
        node.on_change = changed.set
    while [len(node.owned()) for node in nodes] != counts:
        changed.clear()
        before = [node.owned() for node in nodes]
        for node in nodes:
            for lane in node.owned() - node.wanted():
                await node.release(lane)
            for lane in node.wanted() - node.owned():
                await node.acquire(lane)
        if before == [node.owned() for node in nodes]:
            await changed.wait()
    for node in nodes:
        node.on_change = None


async def test_a_node_alone_is_given_every_lane(join: Join) -> None:
    node: Ownership = await join()
    assert node.node == 1
    assert node.wanted() == set(range(LANES))
    assert node.nodes() == {1: NodeAddress("127.0.0.1", 7000, "9.9")}
    assert await node.acquire(3)
    assert node.owned() == {3}
    assert node.owner_of(3) == 1
    assert node.owner_of(0) is None


async def test_lanes_are_in_the_databases_by_turns(join: Join) -> None:
    assert (await join()).databases() == {lane: lane % 2 for lane in range(LANES)}


async def test_of_many_that_try_at_once_one_gets_the_lane(join: Join) -> None:
    nodes = [await join() for _ in range(4)]
    for lane in range(LANES):
        taken = await asyncio.gather(*(node.acquire(lane) for node in nodes))
        assert taken.count(True) == 1


async def test_others_hear_of_a_lane_that_was_given_back(join: Join) -> None:
    one, two = await join(), await join()
    assert await one.acquire(0)
    await until(two, lambda: two.owner_of(0) == one.node)
    assert not await two.acquire(0)
    await one.release(0)
    await until(two, lambda: two.owner_of(0) is None)
    assert await two.acquire(0)


async def test_lanes_spread_over_nodes_that_come_drain_and_go(join: Join, database: str) -> None:
    nodes = [await join()]
    await settle(nodes, [6])
    nodes.append(await join())
    await settle(nodes, [3, 3])
    nodes.append(await join())
    await settle(nodes, [2, 2, 2])
    session = ControlSession(database, "test")
    assert await session.run(lambda c: lease_rows.set_draining(c, 1, True))
    await session.close()
    await settle(nodes, [0, 3, 3])
    await nodes.pop().stop()
    await settle(nodes, [0, 6])


async def test_a_lapsed_lease_is_taken_and_the_old_owner_learns_of_it(
    join: Join, database: str
) -> None:
    one, two = await join(), await join()
    assert await one.acquire(0)
    while not await two.acquire(0):
        age(database, one.node, 3.0)
    await until(one, lambda: one.owned() == set())
    await until(one, lambda: one.owner_of(0) == two.node)


async def test_a_heartbeat_from_the_future_does_not_hold_a_lane_for_long(
    join: Join, database: str
) -> None:
    """The database has failed over to a machine whose clock is an hour behind."""
    one, two = await join(), await join()
    assert await one.acquire(0)
    while not await two.acquire(0):
        age(database, one.node, -3600)


async def test_clocks_of_the_nodes_do_not_matter(join: Join, database: str) -> None:
    ahead, behind = ManualClock(9_000_000_000_000), ManualClock(1)
    one, two = await join(ahead), await join(behind)
    assert await one.acquire(0)
    assert not await two.acquire(0)
    assert await two.acquire(1)
    assert not await one.acquire(1)
    assert (one.owned(), two.owned()) == ({0}, {1})


async def test_an_owner_stops_by_its_own_clock_and_must_acquire_anew(join: Join) -> None:
    clock = ManualClock()
    one = await join(clock)
    assert await one.acquire(0)
    clock.advance_ms(SERVE_MS)
    assert one.owned() == set()
    assert one.owner_of(0) is None
    assert not await one.acquire(0)
    changed = asyncio.Event()
    one.on_change = changed.set
    while not await one.acquire(0):  # until it was renewed, of which the node hears
        await changed.wait()
        changed.clear()
    assert one.owned() == {0}


async def test_a_lane_whose_answer_was_lost_is_given_back(join: Join, database: str) -> None:
    one = await join()
    with psycopg.connect(database) as connection:
        connection.execute("UPDATE partibus_cluster.lane SET owner = %s", (one.node,))
        connection.execute("SELECT pg_notify('partibus_lanes', '')")
    two = await join()
    await until(two, lambda: all(two.owner_of(lane) is None for lane in range(LANES)))


async def test_an_evicted_node_serves_nothing_and_says_so(join: Join, database: str) -> None:
    one, two = await join(), await join()
    assert await one.acquire(0)
    session = ControlSession(database, "test")
    assert await session.run(lambda c: lease_rows.remove(c, one.node))
    assert not await session.run(lambda c: lease_rows.remove(c, one.node))
    await session.close()
    await until(one, lambda: one.evicted)
    assert one.owned() == one.wanted() == set()
    await until(two, lambda: two.owner_of(0) is None)
    assert await two.acquire(0)
    assert not await one.acquire(1)


async def test_numbers_are_never_used_again_and_old_nodes_are_forgotten(
    join: Join, database: str
) -> None:
    one = await join()
    await one.stop()
    two = await join()
    assert two.node == 2
    age(database, two.node, 25 * 3600)
    assert (await join()).node == 3
    with psycopg.connect(database) as connection:
        rows = connection.execute("SELECT number FROM partibus_cluster.node").fetchall()
    assert rows == [(3,)]


async def test_the_tables_are_read_when_something_has_changed_and_not_each_second(
    join: Join, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = await join(ManualClock())
    await one._listening.stop()  # renewed by hand from here on
    assert one._task is not None
    one._task.cancel()
    looks = 0
    look = lease_rows.look

    async def count(connection: AsyncConnection) -> lease_rows.LeaseRows:
        nonlocal looks
        looks += 1
        return await look(connection)

    monkeypatch.setattr(lease_rows, "look", count)
    one._listening.is_up = True
    for _ in range(5):
        await one._renew()
    assert looks == 0
    monkeypatch.setattr(lease_rows, "look", look)
    two = await join()
    await two._listening.stop()
    assert two._task is not None
    two._task.cancel()
    monkeypatch.setattr(lease_rows, "look", count)
    await one._renew()
    assert looks == 1
    assert two.node in one.nodes()
    one._listening.is_up = False
    await one._renew()
    assert looks == 2


async def test_a_listener_that_fails_does_not_end_the_renewals(
    join: Join, database: str, caplog: pytest.LogCaptureFixture
) -> None:
    one = await join()
    assert await one.acquire(0)
    failed = asyncio.Event()

    def fail() -> None:
        failed.set()
        raise RuntimeError("not now")

    one.on_change = fail
    two = await join()
    await failed.wait()
    await until(one, lambda: two.node in one.nodes())
    await two.stop()
    await until(one, lambda: one.nodes().keys() == {one.node})
    assert one.owned() == {0}
    assert "could not be followed" in caplog.text


async def test_of_several_hosts_one_that_does_not_answer_is_passed_over(
    join: Join, database: str, postgres: PostgresServer
) -> None:
    await join()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        hosts = f"127.0.0.1:{silent.getsockname()[1]},127.0.0.1:{postgres.port}"
        name = database.rpartition("/")[2]
        dsn = f"postgresql://partibus@{hosts}/{name}?target_session_attrs=read-write"
        node = PostgresOwnership(dsn, NodeAddress("127.0.0.1", 1))
        await node.start()
        assert node.nodes().keys() == {1, 2}
        await node.stop()


async def test_a_cluster_takes_so_many_nodes(join: Join, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_rows, "NODES_MAX", 2)
    await join()
    await join()
    with pytest.raises(ConfigError, match="has 2 live nodes; the maximum is 2"):
        await join()
    monkeypatch.setattr(lease_rows, "NODES_MAX", 3)
    await join()
