"""Limits shared out over fragments and slices put into tasks, for any numbers."""

from hypothesis import given, settings
from hypothesis import strategies as st

from pyspark_servicebus.source.planning import FLOOR, Slice, group, share_bytes, share_out, split

BACKLOGS = st.dictionaries(st.integers(0, 40), st.integers(0, 100_000), max_size=40)


@settings(deadline=None)
@given(BACKLOGS, st.integers(1, 200_000))
def test_a_limit_is_used_up_and_kept(available: dict[int, int], limit: int) -> None:
    shares = share_out(limit, available)
    assert shares.keys() == available.keys()
    assert all(0 <= shares[index] <= available[index] for index in available)
    assert sum(shares.values()) == min(limit, sum(available.values()))


@settings(deadline=None)
@given(BACKLOGS, st.integers(1, 200_000))
def test_no_fragment_starves(available: dict[int, int], limit: int) -> None:
    shares = share_out(limit, available)
    busy = [index for index, count in available.items() if count]
    floor = min(FLOOR, limit // max(1, len(busy)))
    assert all(shares[index] >= min(floor, available[index]) for index in busy)


def test_shares_follow_the_backlog() -> None:
    shares = share_out(1000, {0: 9000, 1: 1000})
    assert 880 <= shares[0] <= 900
    assert share_out(1000, {0: 5, 1: 10_000}) == {0: 5, 1: 995}


@settings(deadline=None)
@given(BACKLOGS, st.integers(1, 1 << 30))
def test_every_fragment_gets_some_bytes(weights: dict[int, int], limit: int) -> None:
    shares = share_bytes(limit, weights)
    assert all(share >= 1 for share in shares.values())
    assert sum(shares.values()) <= 2 * limit + len(weights)


SLICES = st.lists(
    st.builds(
        lambda fragment, first, length, size: Slice(fragment, first, first + length, length, size),
        st.integers(0, 15),
        st.integers(0, 1 << 47),
        st.integers(1, 100_000),
        st.integers(0, 1 << 30),
    ),
    max_size=20,
    unique_by=lambda part: part.fragment,
)


def numbers(slices: list[Slice]) -> set[tuple[int, int, int]]:
    """What slices cover, with neighbours put together."""
    covered: set[tuple[int, int, int]] = set()
    for part in sorted(slices, key=lambda part: (part.fragment, part.first)):
        before = [c for c in covered if c[0] == part.fragment and c[2] == part.first]
        covered -= set(before)
        covered.add((part.fragment, before[0][1] if before else part.first, part.last))
    return covered


@settings(deadline=None)
@given(SLICES, st.integers(1, 60))
def test_splitting_and_grouping_lose_nothing(slices: list[Slice], wanted: int) -> None:
    parts = split(slices, wanted)
    tasks = group(parts, wanted)
    assert numbers([part for task in tasks for part in task]) == numbers(slices)
    assert all(task for task in tasks)
    assert sum(len(task) for task in tasks) == len(parts)
    if sum(part.last - part.first for part in slices) >= wanted and slices:
        assert len(tasks) >= min(wanted, len(parts))
    for task in tasks:
        assert task == sorted(task, key=lambda part: (part.fragment, part.first))


def test_little_work_is_one_task_and_much_is_many() -> None:
    small = [Slice(index, 0, 10, 10, 10_000) for index in range(16)]
    assert len(group(small, 1)) == 1
    large = [Slice(index, 0, 10, 10, 64 << 20) for index in range(16)]
    assert len(group(large, 1)) == 16
    many = [Slice(index, 0, 1 << 20, 1 << 20, 1000) for index in range(16)]
    assert len(group(many, 1)) == 16
