"""Walks and cuts over buses that answer a peek in different ways, by number and in the end."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from partibus.amqp.codec.encode import encode_symbol, encode_value
from partibus.amqp.codec.sections import encode_annotations
from pyspark_servicebus.over_amqp import browse, ranges
from pyspark_servicebus.over_amqp.browse import GAP_MAX, runs, walk_all, walk_range, walk_set

SHIFT = 48


def encoded(number: int) -> bytes:
    pair = encode_symbol("x-opt-sequence-number") + encode_value(number)
    return encode_annotations(pair, 1)


class PeekingBus:
    """Holds numbers; shows them in their order, or the oldest first from the very beginning."""

    def __init__(self, numbers: list[int], page: int, merges: bool) -> None:
        self.by_age = numbers
        self.ordered = sorted(numbers)
        self.page = page
        self.merges = merges
        self.asked = 0
        self._walk: tuple[int, list[int]] | None = None

    async def peek_encoded(self, first: int, count: int) -> list[bytes]:
        self.asked += 1
        if self._walk is not None and first == self._walk[0]:
            rest = self._walk[1]
        elif first <= 1 and self.merges:
            rest = self._merged()
        else:
            rest = [number for number in self.ordered if number >= first]
        shown = rest[: min(count, self.page)]
        self._walk = (shown[-1] + 1, rest[len(shown) :]) if shown else None
        return [encoded(number) for number in shown]

    def _merged(self) -> list[int]:
        """By age, but in the order of numbers within a fragment."""
        waiting: dict[int, list[int]] = {}
        for number in self.ordered:
            waiting.setdefault(number >> SHIFT, []).append(number)
        return [waiting[number >> SHIFT].pop(0) for number in self.by_age]


class FakeWire:
    """A connection to such a bus; each keeps a place of its own in the walk."""

    def __init__(self, access: PeekingBus) -> None:
        self.access = access
        self.incarnation = 1
        self._node = PeekingBus(access.by_age, access.page, access.merges)

    async def management(self, path: str) -> PeekingBus:
        self.access.asked += 1
        return self._node

    def ask(self, work: Callable[[Any], Awaitable[Any]]) -> Any:
        async def run() -> Any:
            return await work(self)

        return asyncio.run(run())

    def close(self) -> None:
        pass


@pytest.fixture(autouse=True, scope="module")
def _fake_wires() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(browse, "Wire", FakeWire)
        yield


def buses() -> st.SearchStrategy[PeekingBus]:
    number = st.builds(
        lambda fragment, own: fragment << SHIFT | own, st.integers(0, 3), st.integers(1, 60)
    )
    numbers = st.lists(number, unique=True, max_size=60)
    return st.builds(PeekingBus, numbers, st.integers(1, 20), st.booleans())


def given_by(pages: Any) -> list[int]:
    return [number for page in pages for number, _ in page]


@given(buses())
@settings(deadline=None)
def test_all_are_given_once(bus: PeekingBus) -> None:
    assert sorted(given_by(walk_all(FakeWire(bus), "q"))) == bus.ordered  # type: ignore[arg-type]


@given(buses(), st.integers(0, 3), st.integers(0, 60), st.integers(0, 60))
@example(PeekingBus([1], 1, False), 0, 0, 0)
@settings(deadline=None)
def test_a_range_is_given_once_and_in_order(
    bus: PeekingBus, fragment: int, first: int, size: int
) -> None:
    low = fragment << SHIFT | first
    wanted = [number for number in bus.ordered if low <= number < low + size]
    assert given_by(walk_range(FakeWire(bus), "q", low, low + size)) == wanted  # type: ignore[arg-type]


@given(buses(), st.data())
@settings(deadline=None)
def test_a_set_is_given_as_far_as_it_is_there(bus: PeekingBus, data: st.DataObject) -> None:
    mine = data.draw(st.lists(st.sampled_from(bus.ordered), unique=True)) if bus.ordered else []
    gone = [5 << SHIFT | 1, 61]
    assert given_by(walk_set(FakeWire(bus), "q", [*mine, *gone])) == sorted(mine)  # type: ignore[arg-type]


@given(buses(), st.integers(2, 9))
@settings(deadline=None)
def test_a_cut_holds_every_message_once(bus: PeekingBus, parts: int) -> None:
    wire: Any = FakeWire(bus)
    cut = ranges.cut(wire, "q", parts)
    if cut is None:
        assert bus.merges  # only then is there something that cannot be asked for
        return
    found = [given_by(walk_range(wire, "q", first, last)) for first, last in cut]
    assert sorted(number for part in found for number in part) == bus.ordered
    if len(bus.ordered) >= parts:
        assert len(cut) >= parts or len(cut) == sum(last - first for first, last in cut)


def test_a_long_queue_is_cut_with_a_few_questions() -> None:
    bus = PeekingBus(
        [fragment << SHIFT | n for n in range(1, 5001) for fragment in (0, 1)], 250, True
    )
    wire: Any = FakeWire(bus)
    cut = ranges.cut(wire, "q", 8)
    assert cut is not None
    assert len(cut) == 8
    assert cut[-1][1] == (1 << SHIFT) + 5001
    assert bus.asked < 80


def test_a_bus_that_runs_in_circles_is_left() -> None:
    class Circling(PeekingBus):
        async def peek_encoded(self, first: int, count: int) -> list[bytes]:
            return [encoded(number) for number in self.by_age]

    bus = Circling([3, 4], 250, False)
    wire: Any = FakeWire(bus)
    wire._node = bus
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(browse, "Wire", lambda access: wire)
        assert given_by(walk_all(wire, "q")) == [3, 4]
        # What it answers is not what was asked, so that nothing can be cut.
        assert ranges.cut(wire, "q", 4) is None


def test_numbers_near_each_other_are_asked_for_together() -> None:
    far = 100 + GAP_MAX + 1
    assert runs([100, 1, 3, far, 1 << SHIFT]) == [
        (1, 4, frozenset((1, 3))),
        (100, 101, frozenset((100,))),
        (far, far + 1, frozenset((far,))),
        (1 << SHIFT, (1 << SHIFT) + 1, frozenset((1 << SHIFT,))),
    ]
