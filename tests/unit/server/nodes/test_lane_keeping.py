"""Lanes that are opened, handed over and thrown away as the leases say."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from partibus.cluster.lane_table import LaneTable
from partibus.control.ownership import LEASE_MS, NodeAddress
from partibus.domain.errors import StoreCorrupt, StoreUnavailable
from partibus.server.nodes import lane_keeping, reach
from partibus.server.nodes.lane_keeping import LaneKeeping
from partibus.server.nodes.reach import Reach
from partibus.store.interface import StoreState
from partibus.testing.clock import ManualClock
from support.nodes.memory_leases import MemoryLeases, MemoryOwnership


class FakeAlarms:
    def stop(self) -> None: ...


class FakeStore:
    fenced = False
    state = StoreState.UP


class FakeBroker:
    """A broker that only says what was done with it."""

    def __init__(self, lane: int, story: list[str], fails: set[int]) -> None:
        self.lane = lane
        self.story = story
        self.fails = fails
        self.is_at_rest = True
        self.alarms = FakeAlarms()
        self.store = FakeStore()

    def open(self) -> None:
        if self.lane in self.fails:
            self.fails.discard(self.lane)
            raise StoreUnavailable("The database does not answer.")
        self.story.append(f"open {self.lane}")

    def close(self, keeps_locks: bool) -> None:
        self.story.append(f"close {self.lane}")

    def abandon(self) -> None:
        self.story.append(f"abandon {self.lane}")


class FakeLanes:
    """The lanes of a node, without fragments."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.table = LaneTable()
        self.brokers: dict[int, FakeBroker] = {}
        self.epochs: dict[int, int] = {}

    def begin(self, lane: int, epoch: int) -> None:
        self.epochs[lane] = epoch

    def end(self, lane: int) -> FakeBroker | None:
        self.epochs.pop(lane, None)
        return self.brokers.pop(lane, None)

    def epoch_of(self, lane: int) -> int | None:
        return self.epochs.get(lane)


class Node:
    """One node of a cluster whose leases are in memory."""

    def __init__(self, leases: MemoryLeases, clock: ManualClock, number: int) -> None:
        self.story: list[str] = []
        self.fails: set[int] = set()
        self.unfit: set[int] = set()
        self.ownership = MemoryOwnership(leases, NodeAddress("127.0.0.1", number), clock)
        self.lanes = FakeLanes(number)
        self.keeping = LaneKeeping(
            self.ownership,
            self.lanes,  # type: ignore[arg-type]
            lambda lane: FakeBroker(lane, self.story, self.fails),  # type: ignore[arg-type,return-value]
            self._prepare,  # type: ignore[arg-type]
            True,
            self._admit,
        )
        self.ownership.on_change = self.keeping.look

    async def _admit(self, lane: int) -> None:
        if lane in self.unfit:
            raise StoreCorrupt("The lane went back.")

    def keep_in_reach(self, places: list[str], away: set[str]) -> None:
        """Lanes are in these databases, of which some do not answer here."""
        self.keeping._reach = Reach(self.ownership, places, lambda place: place not in away)

    async def _prepare(self, lane: int, broker: FakeBroker) -> int:
        self.lanes.brokers[lane] = broker
        return 1

    @property
    def served(self) -> list[int]:
        return sorted(self.lanes.epochs)


class Bench:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.leases = MemoryLeases(4, self.clock)
        self.nodes: list[Node] = []

    async def join(self) -> Node:
        node = Node(self.leases, self.clock, len(self.nodes) + 1)
        self.nodes.append(node)
        await node.ownership.start()
        node.keeping.look()
        return node


@pytest.fixture
async def bench(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    monkeypatch.setattr(lane_keeping, "RETRY_S", 0.0)
    bench = Bench()
    yield bench
    for node in bench.nodes:
        await node.keeping.stop()


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():  # noqa: ASYNC110  # each turn is what is waited for
        await asyncio.sleep(0)


async def test_the_first_node_serves_every_lane(bench: Bench) -> None:
    node = await bench.join()
    await until(lambda: node.served == [0, 1, 2, 3])
    await node.keeping.settled.wait()


async def test_a_second_node_gets_its_share_by_a_clean_hand_over(bench: Bench) -> None:
    one = await bench.join()
    await until(lambda: len(one.served) == 4)
    two = await bench.join()
    await until(lambda: len(two.served) == 2 and len(one.served) == 2)
    assert not set(one.served) & set(two.served)
    assert sorted(word for word in one.story if "close" in word) == [
        f"close {lane}" for lane in two.served
    ]


async def test_a_lane_that_was_thrown_away_and_is_wanted_elsewhere_is_given_back(
    bench: Bench,
) -> None:
    one = await bench.join()
    await until(lambda: len(one.served) == 4)
    one.lanes.brokers[2].store.fenced = True
    two = await bench.join()
    bench.leases.drain(one.ownership.node)
    await until(lambda: two.served == [0, 1, 2, 3])
    assert "abandon 2" in one.story and "close 2" not in one.story
    assert not one.ownership.owned()


async def test_a_lost_lease_throws_the_state_away(bench: Bench) -> None:
    one = await bench.join()
    await until(lambda: len(one.served) == 4)
    one.ownership.cut_off = True
    bench.clock.advance_ms(LEASE_MS)
    one.ownership.renew()
    await until(lambda: one.served == [])
    await until(lambda: sum("abandon" in word for word in one.story) == 4)
    assert not any("close" in word for word in one.story)
    # It comes back, and takes them as anybody would.
    one.ownership.cut_off = False
    one.ownership.renew()
    await until(lambda: len(one.served) == 4)


async def test_a_lane_that_another_node_serves_with_a_higher_epoch_is_let_go(bench: Bench) -> None:
    one = await bench.join()
    await until(lambda: len(one.served) == 4)
    one.lanes.table.reported(9, {2: 7})
    one.keeping.look()
    await until(lambda: "abandon 2" in one.story)


async def test_a_lane_whose_store_is_fenced_is_opened_anew(bench: Bench) -> None:
    """Under a lease a store never comes back by itself after a failure."""
    one = await bench.join()
    await until(lambda: len(one.served) == 4)
    broken = one.lanes.brokers[2]
    broken.store.fenced = True
    one.keeping.look()
    await until(lambda: one.story.count("open 2") == 2 and len(one.served) == 4)
    assert "abandon 2" in one.story and one.lanes.brokers[2] is not broken


async def test_a_lane_that_cannot_be_opened_is_tried_again(bench: Bench) -> None:
    one = Node(bench.leases, bench.clock, 1)
    one.fails = {1, 3}
    await one.ownership.start()
    one.keeping.look()
    await until(lambda: one.served == [0, 1, 2, 3])


async def test_a_lane_that_is_not_to_be_opened_is_left_as_it_is(bench: Bench) -> None:
    one = Node(bench.leases, bench.clock, 1)
    one.unfit = {2}
    await one.ownership.start()
    one.keeping.look()
    await until(lambda: one.served == [0, 1, 3])
    assert "open 2" not in one.story
    one.unfit.clear()
    await until(lambda: one.served == [0, 1, 2, 3])


async def test_a_node_that_stops_hands_everything_over(bench: Bench) -> None:
    one = await bench.join()
    await until(lambda: len(one.served) == 4)
    await one.keeping.stop()
    assert one.served == [] and sum("close" in word for word in one.story) == 4
    assert bench.leases.table().owners == dict.fromkeys(range(4))


async def test_work_that_is_cancelled_begins_nothing_new(bench: Bench) -> None:
    one = await bench.join()
    opening = list(one.keeping._busy.values())
    for task in opening:
        task.cancel()
    await asyncio.gather(*opening, return_exceptions=True)
    await asyncio.sleep(0)
    assert len(opening) == 4 and not one.keeping._busy


async def test_a_lane_whose_database_is_out_of_reach_goes_to_another_node(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And comes back when that node is gone and the database answers again."""
    monkeypatch.setattr(reach, "ASK_S", 0.0)
    monkeypatch.setattr(lane_keeping, "DOWN_S_MAX", 0.0)
    away = {"b"}
    first = await bench.join()
    first.keep_in_reach(["a", "b", "a", "b"], away)
    await until(lambda: first.served == [0, 1, 2, 3])
    second = await bench.join()
    await until(lambda: len(first.served) == len(second.served) == 2)
    lost = [lane for lane in first.served if lane % 2]
    for lane in lost:
        first.lanes.brokers[lane].store.state = StoreState.DOWN
    first.keeping.look()
    await until(lambda: not [lane for lane in first.served if lane % 2])
    await until(lambda: second.served == [*sorted({*second.served, 1, 3})])
    assert [f"abandon {lane}" for lane in lost] == [s for s in first.story if "abandon" in s]
    away.clear()
    bench.leases.drain(second.ownership.node)
    await until(lambda: first.served == [0, 1, 2, 3])


async def test_a_lane_that_fails_alone_stays_and_so_do_its_neighbours(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its database answers: another node would find the lane in the same state, without its
    locks."""
    monkeypatch.setattr(reach, "ASK_S", 0.0)
    monkeypatch.setattr(lane_keeping, "DOWN_S_MAX", 0.0)
    asked: list[str] = []
    away: set[str] = set()

    def answers(place: str) -> bool:
        asked.append(place)
        return place not in away

    first, second = await bench.join(), await bench.join()
    await until(lambda: len(first.served) == len(second.served) == 2)
    served, story = first.served, list(first.story)
    first.keeping._reach = Reach(first.ownership, ["a"] * 4, answers)
    first.lanes.brokers[served[0]].store.state = StoreState.DOWN
    first.keeping.look()
    await until(lambda: len(asked) >= 3)
    assert (first.served, first.story) == (served, story)
    # It is asked again for as long as the lane is down, so a later loss is not missed.
    away.add("a")
    await until(lambda: second.served == [0, 1, 2, 3])
