"""The arithmetic of traffic: evenness, shares, and steps of time that fit a chart.

Owns the Gini coefficient, the curve that it measures, and the filling of gaps. Pure: numbers in,
numbers out.
"""

import datetime
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

AGES_S: Final = (1, 10, 60, 600, 3600, 6 * 3600, 86_400, 7 * 86_400)
AGE_NAMES: Final = (
    *("< 1 s", "1-10 s", "10-60 s", "1-10 min", "10-60 min", "1-6 h", "6-24 h", "1-7 days"),
    "> 7 days",
)
"""The buckets of ages, each with its name; the last has no end."""
AGE_BINS: Final = 20
"""Bins for each power of ten, from which percentiles are read: within 12 %."""
AGE_S_MIN: Final = 0.001
POINTS_MAX: Final = 360
STEPS_S: Final = (
    *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800),
    *(3600, 7200, 10_800, 21_600, 43_200, 86_400),
)
"""The steps of a clock, which people expect in a chart."""
Moments = list[datetime.datetime]


def gini(counts: Mapping[int, int]) -> float:
    """How uneven shares are: 0 when all are equal, towards 1 when one has everything.

    `counts` says how many holders have each value."""
    holders = sum(counts.values())
    total = sum(value * count for value, count in counts.items())
    if holders < 2 or not total:
        return 0.0
    weighted, before = 0.0, 0
    for value in sorted(counts):
        count = counts[value]
        # The ranks before+1 ... before+count all have this value.
        weighted += value * (count * before + count * (count + 1) / 2)
        before += count
    return max(0.0, 2 * weighted / (holders * total) - (holders + 1) / holders)


def histogram_of(values: Iterable[int]) -> dict[int, int]:
    """How many holders have each value."""
    return dict(Counter(values))


def concentration(counts: Mapping[int, int]) -> tuple[list[float], list[float]]:
    """The share of the whole that the largest holders have: shares of holders, shares of it."""
    holders = sum(counts.values())
    total = sum(value * count for value, count in counts.items())
    xs, ys = [0.0], [0.0]
    if not holders or not total:
        return xs, ys
    seen, taken = 0, 0
    for value in sorted(counts, reverse=True):
        # Holders with one value lie on a straight line: its ends are enough.
        seen += counts[value]
        taken += value * counts[value]
        xs.append(seen / holders)
        ys.append(taken / total)
    return xs, ys


def share_of_top(counts: Mapping[int, int], top: float) -> float:
    """The share of the largest holders, for example of the top 10 % of keys."""
    xs, ys = concentration(counts)
    for index in range(1, len(xs)):
        if xs[index] >= top:
            span = xs[index] - xs[index - 1]
            part = (top - xs[index - 1]) / span if span else 1.0
            return ys[index - 1] + part * (ys[index] - ys[index - 1])
    return ys[-1]


def steps(
    points: Mapping[datetime.datetime, float],
    width: datetime.timedelta,
    points_max: int = POINTS_MAX,
) -> tuple[datetime.timedelta, Moments, list[float]]:
    """Sums over steps of equal width without gaps, few enough to be readable: the width of a step,
    where each begins, and its sum."""
    first, last = min(points), max(points)
    step = _step(last - first, width, points_max)
    starts = [first + n * step for n in range((last - first) // step + 1)]
    sums = [0.0] * len(starts)
    for moment, value in points.items():
        sums[(moment - first) // step] += value
    return step, starts, sums


def _step(
    span: datetime.timedelta, width: datetime.timedelta, points_max: int
) -> datetime.timedelta:
    """A clock step that contains whole windows, or as many windows as necessary."""
    count = span // width + 1
    if count <= points_max:
        return width
    for seconds in STEPS_S:
        step = datetime.timedelta(seconds=seconds)
        if step >= width and not step % width and span // step + 1 <= points_max:
            return step
    return width * -(-count // points_max)


def longest_gap(values: Sequence[float]) -> tuple[int, int] | None:
    """Where the longest run of zeros begins and how long it is; none where there are none."""
    best, begin = None, 0
    for index in range(len(values) + 1):
        if index == len(values) or values[index]:
            if index > begin and (best is None or index - begin > best[1]):
                best = begin, index - begin
            begin = index + 1
    return best


def age_at(bins: Mapping[int, int], share: float) -> float:
    """The age below which this share of the messages lies, from counts by bin."""
    left = share * sum(bins.values())
    for number in sorted(bins):
        left -= bins[number]
        if left <= 0:
            return float(10 ** ((number + 1) / AGE_BINS))
    return 0.0


def percent(share: float) -> str:
    """A share for people: 38 %, 4.2 %, 0.03 %."""
    value = 100 * share
    if value >= 9.95 or value == 0:
        return f"{value:.0f} %"
    return f"{value:.1f} %" if value >= 0.1 else f"{value:.2g} %"


def format_age(seconds: float) -> str:
    """An age for people: 4 s, 12 min, 3.1 h, 5 days."""
    for limit, size, unit in ((90, 1, "s"), (5400, 60, "min"), (172_800, 3600, "h")):
        if seconds < limit:
            value = seconds / size
            return f"{value:.1f} {unit}" if value < 9.95 and unit == "h" else f"{value:.0f} {unit}"
    return f"{seconds / 86_400:.1f} days"


def largest(values: Sequence[float]) -> int:
    """The index of the largest value, the first of several."""
    return max(range(len(values)), key=values.__getitem__)
