"""Of many fragments, each reader is told once of those that have changed."""

from types import SimpleNamespace
from typing import Any

from partibus.server.operators.changed_fragments import ChangedFragments, ChangeNumbers


class Fragments:
    """Fragments that are only their change numbers, and a clock."""

    def __init__(self) -> None:
        self.machines: dict[int, Any] = {n: SimpleNamespace(changes=n << 32) for n in (1, 2, 3)}
        self.now_ms = 0
        self.numbers = ChangeNumbers(self.machines, lambda: self.now_ms)
        self.reader = ChangedFragments(self.numbers)

    def change(self, number: int) -> None:
        self.machines[number].changes += 1


def test_a_reader_is_told_of_a_change_once() -> None:
    fragments = Fragments()
    assert fragments.reader.take() == ([1, 2, 3], set())
    assert fragments.reader.take() == ([], set())
    fragments.change(2)
    assert fragments.reader.take() == ([2], set())
    assert fragments.reader.take() == ([], set())


def test_fragments_come_leave_and_are_replaced() -> None:
    fragments = Fragments()
    fragments.reader.take()
    del fragments.machines[1]
    fragments.machines[3] = SimpleNamespace(changes=9 << 32)
    fragments.machines[4] = SimpleNamespace(changes=10 << 32)
    assert fragments.reader.take() == ([3, 4], {1})
    assert fragments.reader.take() == ([], set())


def test_each_reader_is_told() -> None:
    fragments = Fragments()
    other = ChangedFragments(fragments.numbers)
    fragments.reader.take()
    fragments.change(1)
    fragments.change(2)
    assert fragments.reader.take() == ([1, 2], set())
    assert other.take() == ([1, 2, 3], set())


def test_who_can_wait_uses_the_reading_of_another_and_misses_nothing() -> None:
    fragments = Fragments()
    other = ChangedFragments(fragments.numbers)
    fragments.reader.take(400)
    fragments.change(3)
    fragments.now_ms = 399
    assert fragments.reader.take(400) == ([], set())
    assert other.take() == ([1, 2, 3], set())
    assert fragments.reader.take(400) == ([3], set())
    fragments.change(3)
    fragments.now_ms += 400
    assert fragments.reader.take(400) == ([3], set())
