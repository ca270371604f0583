"""Leases when owners are paused or killed, and when the cluster's database is killed or hangs."""

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from partibus.control.ownership import NodeAddress
from partibus.control.postgres import lease_rows
from partibus.control.postgres.ownership import PostgresOwnership
from partibus.control.postgres.session import ControlSession, prepare
from partibus.server.nodes.lane_keeping import RETRY_S
from support.postgres import PostgresServer
from support.wall_clock import WallClock

pytestmark = pytest.mark.group("postgres")

LANES = 4
HOLDER = Path(__file__).with_name("lease_holder.py")


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """One of its own: it is killed."""
    server = PostgresServer()
    server.start()
    yield server
    server.remove()


class Node:
    """A node in this process that takes and gives lanes as it should."""

    def __init__(self, dsn: str) -> None:
        self.ownership = PostgresOwnership(dsn, NodeAddress("127.0.0.1", 2))
        self._changed = asyncio.Event()
        self._heard = asyncio.Condition()
        self.ownership.on_change = self._changed.set

    async def run(self) -> None:
        while True:
            self._changed.clear()
            node = self.ownership
            for lane in node.owned() - node.wanted():
                await node.release(lane)
            for lane in node.wanted() - node.owned():
                await node.acquire(lane)
            async with self._heard:
                self._heard.notify_all()
            # A lane that could not be acquired is tried again, as the keeper of lanes does.
            has_all = node.wanted() == node.owned()
            with suppress(TimeoutError):
                async with asyncio.timeout(None if has_all else RETRY_S):
                    await self._changed.wait()

    async def until_it_holds(self, count: int) -> None:
        async with self._heard:
            await self._heard.wait_for(lambda: len(self.ownership.owned()) == count)


@asynccontextmanager
async def running(dsn: str) -> AsyncIterator[Node]:
    node = Node(dsn)
    await node.ownership.start()
    task = asyncio.create_task(node.run())
    yield node
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    await node.ownership.stop()


async def make_lanes(server: PostgresServer) -> None:
    await asyncio.to_thread(prepare, server.dsn)
    session = ControlSession(server.dsn, "test")
    await session.run(lambda connection: lease_rows.add_lanes(connection, LANES, 1))
    await session.close()


@asynccontextmanager
async def holder(server: PostgresServer, **environment: str) -> AsyncIterator[Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(HOLDER),
        server.dsn,
        stdout=PIPE,
        env={**os.environ, **environment},
    )
    yield process
    with suppress(ProcessLookupError):
        process.kill()
    await process.wait()


async def line(process: Process) -> object:
    assert process.stdout is not None
    return json.loads(await process.stdout.readline())


async def lines_until(process: Process, count: int) -> list[object]:
    """What a holder says until it holds so many lanes."""
    said: list[object] = []
    while not said or not isinstance(said[-1], list) or len(said[-1]) != count:
        said.append(await line(process))
    return said


async def test_a_paused_owner_has_lost_its_lanes_when_it_wakes(server: PostgresServer) -> None:
    await make_lanes(server)
    async with holder(server) as paused:
        await lines_until(paused, LANES)
        paused.send_signal(signal.SIGSTOP)
        async with running(server.dsn) as other:
            await other.until_it_holds(LANES)
            paused.send_signal(signal.SIGCONT)
            assert await line(paused) == []
            await lines_until(paused, LANES // 2)
            await other.until_it_holds(LANES // 2)


async def test_the_lanes_of_a_killed_owner_are_taken(server: PostgresServer) -> None:
    await make_lanes(server)
    async with holder(server) as killed, running(server.dsn) as other:
        await lines_until(killed, LANES // 2)
        await other.until_it_holds(LANES // 2)
        killed.kill()
        await other.until_it_holds(LANES)
        assert other.ownership.nodes().keys() == {other.ownership.node}


@pytest.mark.group("wall-clock")
@pytest.mark.parametrize("ahead_s", [-86_400, 86_400])
async def test_a_node_whose_clock_is_wrong_by_a_day_shares_the_lanes(
    server: PostgresServer, tmp_path: Path, ahead_s: int
) -> None:
    await make_lanes(server)
    clock = WallClock(tmp_path)
    clock.set_ahead(ahead_s)
    async with running(server.dsn) as other:
        await other.until_it_holds(LANES)
        async with holder(server, **clock.environment) as wrong:
            await lines_until(wrong, LANES // 2)
            await other.until_it_holds(LANES // 2)
            wrong.send_signal(signal.SIGSTOP)
            await other.until_it_holds(LANES)
            wrong.send_signal(signal.SIGCONT)
            assert await line(wrong) == []


async def test_without_the_database_owners_stop_and_with_it_they_go_on(
    server: PostgresServer,
) -> None:
    await make_lanes(server)
    async with running(server.dsn) as one, running(server.dsn) as two:
        await one.until_it_holds(LANES // 2)
        await two.until_it_holds(LANES // 2)
        await asyncio.to_thread(server.kill)
        await one.until_it_holds(0)
        await two.until_it_holds(0)
        await asyncio.to_thread(server.start)
        await one.until_it_holds(LANES // 2)
        await two.until_it_holds(LANES // 2)


async def test_a_database_that_hangs_is_as_good_as_gone(server: PostgresServer) -> None:
    await make_lanes(server)
    async with running(server.dsn) as one:
        await one.until_it_holds(LANES)
        server.pause()
        await one.until_it_holds(0)
        server.resume()
        await one.until_it_holds(LANES)


async def test_a_node_ends_while_the_database_hangs(server: PostgresServer) -> None:
    await make_lanes(server)
    async with running(server.dsn) as one:
        await one.until_it_holds(LANES)
        server.pause()
    server.resume()
    async with running(server.dsn) as two:
        await two.until_it_holds(LANES)
