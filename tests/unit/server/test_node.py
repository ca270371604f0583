"""A whole node without ports: its entities come, change and go, and what a restart keeps."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from partibus.domain.address import parse_address
from partibus.domain.entity import QueueSpec, TopicSpec
from partibus.domain.errors import EntityNotFound, StoreUnavailable
from partibus.domain.limits import MINUTE_MS
from partibus.fragment.commands import Enqueue
from partibus.fragment.message import NewMessage
from partibus.server.config import ServeSettings
from partibus.server.idle import SWEEP_MS
from partibus.server.node import Node
from partibus.store.interface import StoreState
from partibus.testing.clock import ManualClock
from partibus.testing.fragment import Ports

PARTITIONED = QueueSpec(enable_partitioning=True, fragments=6)


class Bench:
    """Nodes on one data directory, one after the other."""

    def __init__(self, data: Path) -> None:
        self.clock = ManualClock()
        self._settings = ServeSettings(data=data, stores=3, faults=True)

    @contextlib.asynccontextmanager
    async def node(self) -> AsyncIterator[Node]:
        node = Node(self._settings, self.clock)
        await node.start()
        try:
            yield node
        finally:
            await node.stop()


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


async def send(node: Node, path: str, count: int) -> None:
    """Store messages in every fragment of an entity."""
    ports = Ports()
    for fragment in node.gateway.namespace.resolve(parse_address(path)).fragments:
        messages = [NewMessage(b"x" * 100, -1) for _ in range(count)]
        fragment.submit(Enqueue(ports, messages, [1], 100 * count))
    while any(not broker.is_at_rest for broker in node._brokers.values()):  # noqa: ASYNC110
        await asyncio.sleep(0)
    assert not ports.refusals


async def totals(node: Node) -> list[int]:
    """Live bytes of every store, once what leaves has left."""
    brokers = node._brokers.values()
    while any(broker._removals.machines for broker in brokers):  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    return [broker.store.live_bytes for broker in brokers]


async def test_entities_come_change_and_go(bench: Bench) -> None:
    async with bench.node() as node:
        await node.live.create("q", PARTITIONED)
        await send(node, "q", 3)
        assert sum(await totals(node)) == 6 * 3 * 100
        changed = QueueSpec(enable_partitioning=True, fragments=6, lock_duration_ms=7_000)
        await node.live.update("q", changed)
        specs = {machine.state.spec.lock_duration_ms for machine in node._machines.values()}
        assert specs == {7_000}
        await node.live.delete("q")
        assert await totals(node) == [0, 0, 0]
        assert not node._machines and not node._lanes._local
        assert not list(node.gateway.namespace.fragments())
        with pytest.raises(EntityNotFound):
            node.gateway.namespace.resolve(parse_address("q"))
        await node.live.create("t", TopicSpec())
        await node.live.delete("t")


async def test_a_hundred_lives_leave_nothing(bench: Bench) -> None:
    async with bench.node() as node:
        await node.live.create("stays", QueueSpec())
        await send(node, "stays", 1)
        before = await totals(node)
        for number in range(100):
            await node.live.create("goes", PARTITIONED if number % 5 == 0 else QueueSpec())
            await send(node, "goes", 1)
            await node.live.delete("goes")
        assert await totals(node) == before
        assert len(node._machines) == len(node._lanes._local) == 1
        assert sum(broker.fragment_count for broker in node._brokers.values()) == 1
        assert all(
            not b.alarms._alarms and len(b.alarms._heap) < 10 for b in node._brokers.values()
        )
    async with bench.node() as again:
        assert await totals(again) == before


async def test_messages_of_a_life_survive_and_those_of_an_earlier_one_do_not(
    bench: Bench,
) -> None:
    async with bench.node() as node:
        await node.live.create("q", PARTITIONED)
        await send(node, "q", 5)
        await node.live.delete("q")
        await node.live.create("q", PARTITIONED)
        await send(node, "q", 2)
    async with bench.node() as again:
        counts = [machine.state.counts().active for machine in again._machines.values()]
        assert counts == [2] * 6
        assert sum(await totals(again)) == 6 * 2 * 100


@pytest.mark.rule("PAV-5")
async def test_a_store_that_is_down_refuses_its_entities_alone(bench: Bench) -> None:
    async with bench.node() as node:
        record = await node.live.create("one", QueueSpec())
        (placement,) = record.fragments
        await node.live.create("wide", PARTITIONED)
        store = node._brokers[placement.store].store
        state, store.state = store.state, StoreState.DOWN
        for path in ("one", "wide"):
            with pytest.raises(StoreUnavailable, match=f"store {placement.store}"):
                await node.live.delete(path)
        store.state = state
        await node.live.delete("wide")


@pytest.mark.rule("IDL-1")
async def test_idle_time_survives_restarts_and_counts_only_while_the_server_runs(
    bench: Bench,
) -> None:
    fleeting = QueueSpec(auto_delete_on_idle_ms=10 * MINUTE_MS)
    async with bench.node() as node:
        await node.live.create("q", fleeting)
        for _ in range(4):
            bench.clock.advance_ms(SWEEP_MS)
            assert await node._idle.sweep() == []
    bench.clock.advance_ms(600 * MINUTE_MS)
    async with bench.node() as node:
        for _ in range(5):
            bench.clock.advance_ms(SWEEP_MS)
            assert await node._idle.sweep() == [], "four minutes of before, and these"
        bench.clock.advance_ms(SWEEP_MS)
        assert await node._idle.sweep() == ["q"]
    async with bench.node() as node:
        assert node.catalog.lookup("q") is None
