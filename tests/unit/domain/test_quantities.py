"""Durations, sizes, rates and times: one grammar wherever a person writes them."""

import datetime

import pytest

from partibus.domain.errors import ArgumentError
from partibus.domain.quantities import (
    any_duration_ms,
    duration_ms,
    moment_ms,
    rate_per_s,
    size_bytes,
    timestamp_ms,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("70ms", 70), ("30s", 30_000), ("1.5s", 1500), ("1h30m", 5_400_000), ("2d", 172_800_000)],
)
def test_durations(text: str, expected: int) -> None:
    assert duration_ms(text) == expected


def test_a_duration_may_be_in_iso_8601_where_both_are_taken() -> None:
    assert any_duration_ms("P7D") == any_duration_ms("7d") == 604_800_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("512", 512),
        ("500k", 512_000),
        ("64MiB", 64 << 20),
        ("64 mb", 64 << 20),
        ("1.5G", 3 << 29),
        ("2T", 2 << 40),
    ],
)
def test_sizes(text: str, expected: int) -> None:
    assert size_bytes(text) == expected


@pytest.mark.parametrize(("text", "expected"), [("100/s", 100.0), ("100", 100.0), ("30/m", 0.5)])
def test_rates(text: str, expected: float) -> None:
    assert rate_per_s(text) == expected


def test_a_time_without_a_zone_is_in_utc() -> None:
    assert moment_ms("1970-01-01T00:00:01") == moment_ms("1970-01-01T00:00:01Z") == 1000
    assert moment_ms("1970-01-01T01:00:00+01:00") == 0
    assert timestamp_ms(datetime.datetime(1970, 1, 1)) == 0


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (duration_ms, "30"),
        (duration_ms, "5 parrots"),
        (duration_ms, "-1s"),
        (duration_ms, ""),
        (size_bytes, "64 apples"),
        (size_bytes, "-1"),
        (size_bytes, "1" * 16),
        (rate_per_s, "fast"),
        (moment_ms, "noon"),
    ],
)
def test_what_is_wrong_is_named_with_an_example(read: object, text: str) -> None:
    assert callable(read)
    with pytest.raises(ArgumentError, match="for example: ") as refused:
        read(text)
    assert f"'{text}'" in refused.value.text
