"""The plan of a replay: cuts in time become ranges of numbers, and order is by number."""

from pyspark_servicebus.pipelines.replay.source import batches_of

F1 = 1 << 48


def test_ranges_follow_each_other() -> None:
    told = [(0, 0, 10, 5), (1, 0, F1 + 3, 3), (0, 2, 30, 9), (0, 1, 20, 4)]
    batches = batches_of(told, {}, [100, 200], 50)
    assert [batch.ranges for batch in batches] == [
        {0: (0, 10), 1: (F1, F1 + 3)},
        {0: (11, 20)},
        {0: (21, 30)},
    ]
    assert [(batch.rows, batch.starts_ms) for batch in batches] == [(8, 50), (4, 100), (9, 200)]


def test_a_clock_that_went_back_changes_no_order() -> None:
    """Number 15 has an earlier time than 11: it takes 11 along, and none comes twice."""
    batches = batches_of([(0, 0, 15, 6), (0, 1, 12, 4), (0, 2, 20, 5)], {}, [1, 2], 0)
    assert [batch.ranges for batch in batches] == [{0: (0, 15)}, {0: (16, 20)}]


def test_what_was_sent_is_left_out() -> None:
    batches = batches_of([(0, 0, 15, 5), (1, 0, F1 + 9, 9)], {0: 10, 1: F1 + 2}, [], 0)
    assert [batch.ranges for batch in batches] == [{0: (11, 15), 1: (F1 + 3, F1 + 9)}]
