"""Conditions that the bus answers: the same rows as Spark's own filters, for any values."""

import datetime
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from partibus.domain.sequence import NUMBERS_END
from pyspark_servicebus.source.pushdown import Pushed
from pyspark_servicebus.source.selection import Selection

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
COMPARISONS: list[tuple[type[Any], Callable[[Any, Any], bool]]] = [
    (EqualTo, lambda a, b: a == b),
    (GreaterThan, lambda a, b: a > b),
    (GreaterThanOrEqual, lambda a, b: a >= b),
    (LessThan, lambda a, b: a < b),
    (LessThanOrEqual, lambda a, b: a <= b),
]
COMPARED = st.sampled_from(COMPARISONS)
NUMBERS = st.integers(-3, 5 << 46)


def pushed(*conditions: Filter, selection: Selection | None = None) -> Pushed:
    made = Pushed(selection or Selection())
    assert list(made.take(conditions)) == []
    return made


@settings(deadline=None)
@given(COMPARED, st.integers(0, 4), st.integers(0, 1 << 46), NUMBERS | st.integers(0, 1 << 52))
def test_ranges_of_sequence_numbers(
    compared: tuple[type[Any], Callable[[int, int], bool]], fragment: int, number: int, bound: int
) -> None:
    kind, holds = compared
    sequence = fragment << 48 | number
    for value in (bound, sequence, sequence + 1, sequence - 1):
        made = pushed(kind(("sequence_number",), value))
        first, last = made.range_in(fragment, 0, NUMBERS_END)
        assert (first <= number < last) == holds(sequence, value)
        assert made.wants(fragment) >= holds(sequence, value)


@settings(deadline=None)
@given(COMPARED, st.integers(0, 1 << 40), st.integers(-2000, 2000))
def test_ranges_of_times(
    compared: tuple[type[Any], Callable[[int, int], bool]], enqueued_ms: int, apart_us: int
) -> None:
    kind, holds = compared
    value_us = max(0, enqueued_ms * 1000 + apart_us)
    value = EPOCH + datetime.timedelta(microseconds=value_us)
    chosen = pushed(kind(("enqueued_time",), value)).selection
    passes = chosen.enqueued_from_ms <= enqueued_ms < chosen.enqueued_to_ms
    assert passes == holds(enqueued_ms * 1000, value_us)


def test_conditions_add_up() -> None:
    made = pushed(
        In(("fragment",), (1, 2, 5)),
        EqualTo(("fragment",), 2),
        In(("session_id",), ("a", "b")),
        EqualTo(("message_id",), "m"),
        selection=Selection("colour = 'red'", session_ids=("b", "c")),
    )
    assert [index for index in range(8) if made.wants(index)] == [2]
    assert made.selection.session_ids == ("b",)
    assert made.selection.message_ids == ("m",)
    assert made.selection.filter == "colour = 'red'"
    assert not made.selection.is_nothing
    assert pushed(EqualTo(("session_id",), "a"), EqualTo(("session_id",), "b")).selection.is_nothing


@pytest.mark.parametrize(
    "condition",
    [
        IsNotNull(("fragment",)),
        Not(EqualTo(("fragment",), 1)),
        StringStartsWith(("message_id",), "a"),
        EqualTo(("subject",), "a"),
        EqualTo(("fragment",), None),
        EqualTo(("session_id",), None),
        In(("message_id",), ("a", None)),
        In(("sequence_number",), (1, 2)),
        GreaterThan(("message_id",), "a"),
        GreaterThan(("enqueued_time",), datetime.datetime(2026, 1, 1)),
        EqualTo(("application_properties", "fragment"), 1),
    ],
)
def test_what_the_bus_does_not_answer_is_handed_back(condition: Filter) -> None:
    made = Pushed(Selection())
    taken = EqualTo(("fragment",), 3)
    assert list(made.take([condition, taken])) == [condition]
    assert made.selection.is_everything
    assert [index for index in range(8) if made.wants(index)] == [3]
