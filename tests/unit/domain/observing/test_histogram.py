"""Durations fall into the bucket of the first bound that holds them."""

from partibus.domain.observing.histogram import BOUNDS_S, Histogram


def test_a_duration_is_counted_once() -> None:
    histogram = Histogram()
    for seconds in (-1.0, 0.0001, 0.0002, 0.7, 10_000.0):
        histogram.observe(seconds)
    assert sum(histogram.counts) == 5
    assert histogram.counts[0] == 2  # a clock that was set back is no negative duration
    assert histogram.counts[1] == 1
    assert histogram.counts[BOUNDS_S.index(1.0)] == 1
    assert histogram.counts[-1] == 1
    assert abs(histogram.sum_s - 10_000.7003) < 1e-9
