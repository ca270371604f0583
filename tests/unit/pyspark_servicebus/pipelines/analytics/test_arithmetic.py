"""The arithmetic of traffic, against definitions and against worked examples."""

import datetime
import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyspark_servicebus.pipelines.analytics.arithmetic import (
    AGE_BINS,
    AGE_NAMES,
    AGE_S_MIN,
    AGES_S,
    age_at,
    concentration,
    format_age,
    gini,
    histogram_of,
    percent,
    share_of_top,
    steps,
)

MINUTE = datetime.timedelta(minutes=1)
NOON = datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC)


def by_definition(values: list[int]) -> float:
    """Half of the mean absolute difference, relative to the mean."""
    total, count = sum(values), len(values)
    if count < 2 or not total:
        return 0.0
    differences = sum(abs(a - b) for a, b in itertools.product(values, values))
    return differences / (2 * count * total)


@pytest.mark.parametrize(
    ("values", "expected"),
    [([], 0), ([5], 0), ([0, 0], 0), ([3, 3, 3], 0), ([0, 10], 0.5), ([0, 0, 0, 4], 0.75)],
)
def test_evenness(values: list[int], expected: float) -> None:
    assert gini(histogram_of(values)) == pytest.approx(expected)


@settings(deadline=None)
@given(st.lists(st.integers(0, 1000), max_size=40))
def test_evenness_is_what_its_definition_says(values: list[int]) -> None:
    assert gini(histogram_of(values)) == pytest.approx(by_definition(values), abs=1e-9)


def test_concentration() -> None:
    counts = {8: 1, 1: 2}
    assert concentration(counts) == ([0, pytest.approx(1 / 3), 1], [0, pytest.approx(0.8), 1])
    assert share_of_top(counts, 1 / 3) == pytest.approx(0.8)
    assert share_of_top(counts, 1 / 6) == pytest.approx(0.4)
    assert share_of_top(counts, 1) == pytest.approx(1)
    assert share_of_top({}, 0.1) == 0


def test_steps_have_no_gaps_and_lose_nothing() -> None:
    points = {NOON: 2.0, NOON + 3 * MINUTE: 1.0}
    width, starts, sums = steps(points, MINUTE)
    assert (width, sums) == (MINUTE, [2, 0, 0, 1])
    assert starts == [NOON + n * MINUTE for n in range(4)]
    many = {NOON + n * MINUTE: 1.0 for n in range(1000)}
    width, starts, sums = steps(many, MINUTE, 100)
    assert width == 10 * MINUTE
    assert sums == [10.0] * 100


def test_ages() -> None:
    assert len(AGE_NAMES) == len(AGES_S) + 1


def test_percentiles_from_bins() -> None:
    ages = [0.5 + n for n in range(1000)]
    bins = histogram_of(math.floor(AGE_BINS * math.log10(age + AGE_S_MIN)) for age in ages)
    assert age_at(bins, 0.5) == pytest.approx(500, rel=0.13)
    assert age_at(bins, 0.95) == pytest.approx(950, rel=0.13)
    assert age_at({}, 0.5) == 0


@pytest.mark.parametrize(
    ("share", "words"),
    [(0, "0 %"), (1, "100 %"), (0.384, "38 %"), (0.0421, "4.2 %"), (0.0003, "0.03 %")],
)
def test_shares_in_words(share: float, words: str) -> None:
    assert percent(share) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(4, "4 s"), (60, "60 s"), (720, "12 min"), (11_160, "3.1 h"), (432_000, "5.0 days")],
)
def test_ages_in_words(seconds: float, words: str) -> None:
    assert format_age(seconds) == words
