"""The search for messages that fail, and what they look like."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyspark_servicebus.pipelines.transform.failed_rows import (
    TooManyFailures,
    failed_row,
    failing_numbers,
)


@given(st.lists(st.integers(0, 500), unique=True, min_size=1), st.data())
@settings(deadline=None)
def test_exactly_those_that_fail_are_found(numbers: list[int], data: st.DataObject) -> None:
    numbers.sort()
    bad = set(data.draw(st.lists(st.sampled_from(numbers), unique=True)))
    tries = 0

    def attempt(part: Sequence[int]) -> str | None:
        nonlocal tries
        tries += 1
        failing = sorted(bad & set(part))
        return f"{failing[0]} fails" if failing else None

    found = failing_numbers(numbers, attempt, len(numbers))
    assert found == {number: f"{number} fails" for number in bad}
    assert tries <= 1 + 2 * len(bad) * len(numbers).bit_length()


def test_too_many() -> None:
    with pytest.raises(TooManyFailures, match="More than 3 messages of one batch fail"):
        failing_numbers(range(100), lambda part: "no", 3)


def test_a_failed_message_is_the_message_with_the_reason() -> None:
    row = {"body": b"x", "entity": "orders", "application_properties": {"a": "1"}, "subject": "s"}
    failed = failed_row(row, "y" * 2000, "failures")
    assert failed == {
        "body": b"x",
        "entity": "orders",
        "subject": "s",
        "target": "failures",
        "application_properties": {
            "a": "1",
            "DeadLetterReason": "TransformFailed",
            "DeadLetterErrorDescription": "y" * 1000,
            "DeadLetterSource": "orders",
        },
    }
    assert row["application_properties"] == {"a": "1"}
