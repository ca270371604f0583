"""The account of segments and their live bytes."""

from pathlib import Path

import pytest

from partibus.domain.errors import StoreCorrupt
from partibus.store.table import SegmentTable


@pytest.fixture
def table() -> SegmentTable:
    made = SegmentTable(Path("/store"))
    made.fill([0, 1000, 5000, 6000], [1000, 9999, 1000, 64])
    return made  # 2000..5000 of the second is what a crash left uncut


def located(table: SegmentTable, position: int) -> tuple[int, int]:
    segment = table.segment_at(position)
    return segment.base, segment.end


def test_a_position_is_found_in_its_segment(table: SegmentTable) -> None:
    assert located(table, 64) == (0, 1000)
    assert located(table, 1000) == (1000, 5000)
    assert located(table, 4999) == (1000, 5000)
    assert located(table, 1 << 50)[0] == 6000


def test_a_position_in_a_deleted_segment_is_corruption(table: SegmentTable) -> None:
    table.remove(1000)
    for position in (1000, 4999):
        with pytest.raises(StoreCorrupt, match="/store"):
            located(table, position)
        with pytest.raises(StoreCorrupt):
            table.retain(position, 1)
    assert located(table, 5000) == (5000, 6000)


def test_a_body_that_reaches_beyond_its_segment_is_corruption(table: SegmentTable) -> None:
    with pytest.raises(StoreCorrupt):
        table.retain(990, 20)


def test_only_empty_segments_wholly_before_the_position_may_go(table: SegmentTable) -> None:
    table.retain(1500, 10)
    assert table.empty_before(1000) == [], "nothing is known to be durable behind it"
    assert table.empty_before(1001) == [0]
    assert table.empty_before(1 << 40) == [0, 5000]
    table.release(1500, 10)
    assert table.empty_before(1 << 40) == [0, 1000, 5000]


def test_appends_count_in_the_last_segment(table: SegmentTable) -> None:
    table.append(30)
    table.release(6100, 10)
    assert table.live_bytes == 20
    table.seal(7000)
    table.add(7000)
    assert not table.holds_nothing(6000)
    assert table.holds_nothing(7000)
    assert not table.holds_nothing(7001)


def test_reopening_drops_what_was_never_durable(table: SegmentTable) -> None:
    table.seal(7000)
    table.add(7000)
    table.reopen(6000, 6500)
    assert len(table) == 4
    assert located(table, 1 << 40)[0] == 6000


def test_more_can_not_be_released_than_is_live(table: SegmentTable) -> None:
    table.retain(100, 5)
    with pytest.raises(AssertionError):
        table.release(100, 6)
