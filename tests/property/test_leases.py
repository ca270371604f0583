"""Leases under any order of pauses, cuts, drains and evictions: never two owners, even in the end.

The nodes' clocks differ from each other and from the table's; they only run equally fast.
"""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from partibus.control.ownership import RENEW_MS, NodeAddress
from partibus.testing.clock import ManualClock
from support.nodes.memory_leases import MemoryLeases, MemoryOwnership

LANES = 5
NODES = 3
ACTIONS = ["work", "renew", "cut", "heal", "pass", "others", "drain", "resume", "restart"]
TURN_MS = 250
Step = tuple[str, int, int]
STEPS = st.lists(
    st.tuples(st.sampled_from(ACTIONS), st.integers(0, NODES - 1), st.integers(1, 3200)),
    max_size=60,
)


class Cluster:
    """Nodes that take and give lanes when they are let."""

    def __init__(self) -> None:
        self.clocks = [ManualClock(1_000_000 * (number + 1)) for number in range(NODES + 1)]
        self.leases = MemoryLeases(LANES, self.clocks[NODES])
        self.nodes: list[MemoryOwnership] = []

    async def start(self) -> None:
        for number in range(NODES):
            self.nodes.append(await self.join(number))
        await self.calm()

    async def join(self, number: int) -> MemoryOwnership:
        address = NodeAddress("127.0.0.1", 7000 + number)
        node = MemoryOwnership(self.leases, address, self.clocks[number])
        await node.start()
        return node

    async def act(self, action: str, number: int, time_ms: int) -> None:
        node = self.nodes[number]
        if action == "work":
            await self.work(node)
        elif action == "renew":
            node.renew()
        elif action in ("cut", "heal"):
            node.cut_off = action == "cut"
        elif action in ("drain", "resume"):
            self.leases.drain(node.node, action == "drain")
        elif action == "restart":
            node.cut_off = True  # killed: it says nothing
            self.nodes[number] = await self.join(number)
        elif action == "others":
            await self.go_on_without(node, time_ms)
        else:
            self.advance(time_ms)

    def advance(self, time_ms: int) -> None:
        for clock in self.clocks:
            clock.advance_ms(time_ms)

    async def go_on_without(self, paused: MemoryOwnership, time_ms: int) -> None:
        """The process of one node is paused, or has lost its database."""
        for _ in range(0, time_ms, TURN_MS):
            self.advance(TURN_MS)
            for node in self.nodes:
                if node is not paused:
                    node.renew()
                    await self.work(node)
            self.check()

    async def work(self, node: MemoryOwnership) -> None:
        for lane in node.owned() - node.wanted():
            await node.release(lane)
        for lane in node.wanted() - node.owned():
            await node.acquire(lane)

    def check(self) -> None:
        owners = self.owners()
        assert len(owners) == len(set(owners)), "a lane has two owners"

    def owners(self) -> list[int]:
        return sorted(lane for node in self.nodes for lane in node.owned())

    async def calm(self) -> None:
        """Nothing happens any more but what should."""
        for node in self.nodes:
            node.cut_off = False
            self.leases.drain(node.node, False)
        for _ in range(12):
            self.advance(RENEW_MS)
            for node in self.nodes:
                node.renew()
                await self.work(node)
            await asyncio.sleep(0)


async def live(steps: list[Step]) -> None:
    cluster = Cluster()
    await cluster.start()
    for action, number, time_ms in steps:
        await cluster.act(action, number, time_ms)
        await asyncio.sleep(0)
        cluster.check()
    await cluster.calm()
    assert cluster.owners() == list(range(LANES))
    counts = [len(node.owned()) for node in cluster.nodes]
    assert max(counts) - min(counts) <= 1
    for node in cluster.nodes:
        assert {lane for lane in range(LANES) if node.owner_of(lane) == node.node} == node.owned()


@settings(deadline=None, max_examples=150)
@given(steps=STEPS)
def test_a_lane_never_has_two_owners_and_all_is_even_when_it_is_calm(steps: list[Step]) -> None:
    asyncio.run(live(steps))
