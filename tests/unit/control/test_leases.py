"""Leases in memory: who may take a lane, and when an owner stops by its own clock."""

import asyncio

from partibus.control.ownership import LEASE_MS, RENEW_MS, SERVE_MS, NodeAddress, Ownership
from partibus.testing.clock import ManualClock
from support.nodes.memory_leases import MemoryLeases, MemoryOwnership


class Cluster:
    """Nodes over one table; the clocks advance together but show different times."""

    def __init__(self, lanes: int) -> None:
        self.clocks = [ManualClock()]
        self.leases = MemoryLeases(lanes, self.clocks[0])
        self.nodes: list[MemoryOwnership] = []

    async def add(self, skew_ms: int = 0) -> MemoryOwnership:
        clock = ManualClock(5_000_000 + skew_ms)
        self.clocks.append(clock)
        address = NodeAddress("127.0.0.1", 7000 + len(self.nodes), "1")
        node = MemoryOwnership(self.leases, address, clock)
        self.nodes.append(node)
        await node.start()
        return node

    def pass_ms(self, delta_ms: int) -> None:
        for clock in self.clocks:
            clock.advance_ms(delta_ms)

    async def settle(self) -> None:
        """Let every node do what it should until nothing moves."""
        for _ in range(50):
            for node in self.nodes:
                for lane in node.owned() - node.wanted():
                    await node.release(lane)
                for lane in node.wanted() - node.owned():
                    await node.acquire(lane)
            await asyncio.sleep(0)


async def test_a_node_alone_takes_every_lane() -> None:
    cluster = Cluster(3)
    node: Ownership = await cluster.add()
    assert node.wanted() == {0, 1, 2}
    assert [await node.acquire(lane) for lane in range(3)] == [True] * 3
    assert node.owned() == {0, 1, 2}
    assert node.owner_of(2) == node.node == 1


async def test_a_lease_that_is_held_is_refused_and_one_that_was_given_back_is_not() -> None:
    cluster = Cluster(1)
    one, two = await cluster.add(), await cluster.add()
    assert await one.acquire(0)
    assert not await two.acquire(0)
    await one.release(0)
    assert one.owned() == set()
    assert await two.acquire(0)
    await asyncio.sleep(0)
    assert one.owner_of(0) == two.node


async def test_an_owner_that_is_cut_off_stops_before_another_may_begin() -> None:
    cluster = Cluster(1)
    one, two = await cluster.add(skew_ms=-900_000), await cluster.add(skew_ms=900_000)
    assert await one.acquire(0)
    one.cut_off = True
    cluster.pass_ms(SERVE_MS - 1)
    two.renew()
    assert one.owned() == {0}
    cluster.pass_ms(1)
    assert one.owned() == set()
    assert one.owner_of(0) is None
    assert not await two.acquire(0)
    cluster.pass_ms(LEASE_MS - SERVE_MS)
    two.renew()
    assert two.owner_of(0) is None
    assert two.wanted() == {0}
    assert await two.acquire(0)


async def test_a_renewed_lease_goes_on() -> None:
    cluster = Cluster(1)
    one, two = await cluster.add(), await cluster.add()
    assert await one.acquire(0)
    for _ in range(10):
        cluster.pass_ms(RENEW_MS)
        one.renew()
        two.renew()
    assert one.owned() == {0}
    assert not await two.acquire(0)
    assert two.nodes().keys() == {1, 2}


async def test_a_lease_that_lapsed_must_be_acquired_anew_even_if_nobody_took_it() -> None:
    cluster = Cluster(2)
    one = await cluster.add()
    await cluster.settle()
    cluster.pass_ms(SERVE_MS)
    one.renew()
    assert one.owned() == set()
    assert one.wanted() == {0, 1}
    assert await one.acquire(0)
    assert one.owned() == {0}


async def test_a_node_that_was_paused_does_not_acquire_with_an_old_renewal() -> None:
    cluster = Cluster(1)
    one = await cluster.add()
    cluster.pass_ms(SERVE_MS)
    assert not await one.acquire(0)
    one.renew()
    assert await one.acquire(0)


async def test_lanes_spread_when_nodes_come_drain_and_go() -> None:
    cluster = Cluster(7)
    for _ in range(3):
        await cluster.add()
        await cluster.settle()
    assert sorted(len(node.owned()) for node in cluster.nodes) == [2, 2, 3]
    cluster.leases.drain(1)
    await cluster.settle()
    assert [len(node.owned()) for node in cluster.nodes] == [0, 4, 3]
    await cluster.nodes.pop(0).stop()
    await cluster.settle()
    assert [len(node.owned()) for node in cluster.nodes] == [4, 3]
    assert cluster.nodes[0].nodes().keys() == {2, 3}


async def test_numbers_of_nodes_are_never_used_again() -> None:
    cluster = Cluster(1)
    one = await cluster.add()
    await one.stop()
    assert (await cluster.add()).node == 2


async def test_an_evicted_node_holds_and_wants_nothing() -> None:
    cluster = Cluster(2)
    one = await cluster.add()
    await cluster.settle()
    cluster.leases.leave(one.node)
    one.renew()
    assert one.owned() == one.wanted() == set()
    assert not await one.acquire(0)


async def test_listeners_hear_of_each_change_once() -> None:
    cluster = Cluster(1)
    one, two = await cluster.add(), await cluster.add()
    await asyncio.sleep(0)
    heard: list[int | None] = []
    two.on_change = lambda: heard.append(two.owner_of(0))
    assert await one.acquire(0)
    await asyncio.sleep(0)
    two.renew()
    assert heard == [1]
    cluster.pass_ms(RENEW_MS * 3)
    two.renew()
    two.renew()
    assert heard == [1, None]


async def test_a_lapse_is_heard_of_without_the_database() -> None:
    cluster = Cluster(1)
    one = await cluster.add()
    assert await one.acquire(0)
    await asyncio.sleep(0)
    heard: list[frozenset[int]] = []
    one.on_change = lambda: heard.append(one.owned())
    one.cut_off = True
    cluster.pass_ms(SERVE_MS)
    one.renew()
    assert heard == [frozenset()]


async def test_a_timer_renews_by_itself() -> None:
    clock = ManualClock()
    leases = MemoryLeases(1, clock)
    timers: list[tuple[float, object]] = []

    class Timer:
        def cancel(self) -> None:
            timers.clear()

    def later(delay_s: float, call: object) -> Timer:
        timers.append((delay_s, call))
        return Timer()

    node = MemoryOwnership(leases, NodeAddress("127.0.0.1", 1), clock, later)
    await node.start()
    assert await node.acquire(0)
    for _ in range(5):
        clock.advance_ms(RENEW_MS)
        delay_s, call = timers.pop()
        assert delay_s == 1.0
        assert callable(call)
        call()
    assert node.owned() == {0}
    await node.stop()
    assert not timers


async def test_takeovers_and_failed_renewals_are_counted() -> None:
    cluster = Cluster(2)
    one, two = await cluster.add(), await cluster.add()
    assert await one.acquire(0)
    await one.release(0)
    assert await two.acquire(0)
    assert two.takeovers == 0  # it was given back
    assert await one.acquire(1)
    one.cut_off = True
    cluster.pass_ms(RENEW_MS)
    one.renew()
    two.renew()
    cluster.pass_ms(LEASE_MS - RENEW_MS)
    two.renew()
    assert await two.acquire(1)
    assert (two.takeovers, two.renewals_failed) == (1, 0)
    assert (one.takeovers, one.renewals_failed) == (0, 1)
