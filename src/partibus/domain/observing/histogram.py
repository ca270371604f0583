"""A histogram of durations: how many took no longer than each bound.

Owns the bounds, which are the same everywhere so that the counts of workers can be added. Observing
is a search in a short list and three additions; called once per batch, by one thread.
"""

from bisect import bisect_left
from typing import Final

BOUNDS_S: Final = [
    0.0001,
    0.00025,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    10.0,
    60.0,
    600.0,
]


class Histogram:
    """Durations in seconds."""

    __slots__ = ("counts", "sum_s")

    def __init__(self) -> None:
        self.counts: list[int] = [0] * (len(BOUNDS_S) + 1)
        """How many are between each bound and the previous one; the last is beyond all."""
        self.sum_s = 0.0

    def observe(self, seconds: float) -> None:
        """Count one duration."""
        if seconds < 0.0:
            seconds = 0.0
        self.counts[bisect_left(BOUNDS_S, seconds)] += 1
        self.sum_s += seconds
