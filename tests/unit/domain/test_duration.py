"""ISO 8601 durations: what is read, what is refused, and the way back."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partibus.domain.duration import (
    DURATION_MAX_MS,
    DURATION_MAX_TEXT,
    format_duration,
    format_span_us,
    parse_duration,
    parse_span_us,
)
from partibus.domain.errors import ArgumentError

UNLIMITED_FROM_MS = 10_675_199 * 86_400_000


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("PT1M30S", 90_000),
        ("PT0S", 0),
        ("PT0.5S", 500),
        ("PT1.2345678S", 1_234),
        ("P7D", 604_800_000),
        ("P1W", 604_800_000),
        ("P1DT2H3M4S", 93_784_000),
        ("PT90S", 90_000),
        ("P1Y", 365 * 86_400_000),
        ("P1M", 30 * 86_400_000),
        ("P14D", 1_209_600_000),
    ],
)
def test_reads_durations(text: str, expected_ms: int) -> None:
    assert parse_duration(text) == expected_ms


@pytest.mark.rule("PRP-1")
@pytest.mark.parametrize(
    "text",
    [DURATION_MAX_TEXT, "P10675199DT2H48M5.477539S", "P10675199D", "P99999999D", "P30000Y"],
)
def test_the_largest_span_is_one_value(text: str) -> None:
    assert parse_duration(text) == DURATION_MAX_MS
    assert format_duration(DURATION_MAX_MS) == "P10675199DT2H48M5.4775807S"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "P",
        "PT",
        "P1DT",
        "1M",
        "PT1",
        "PTS",
        "-PT1S",
        "PT-1S",
        "pt1s",
        "PT1.S",
        "PT1,5S",
        "PT1S ",
        "PT1M\n",
        "PT1S1M",
        "P1.5D",
        "PT٣S",
        "P" + "9" * 200 + "D",
        "00:01:00",
    ],
)
def test_refuses_what_is_no_duration(text: str) -> None:
    with pytest.raises(ArgumentError, match="ISO 8601"):
        parse_duration(text)


@settings(deadline=None)
@given(st.integers(min_value=0, max_value=UNLIMITED_FROM_MS - 1))
def test_every_duration_comes_back(duration_ms: int) -> None:
    assert parse_duration(format_duration(duration_ms)) == duration_ms


@settings(deadline=None)
@given(st.integers(min_value=-(2**62), max_value=2**62))
def test_every_span_comes_back_to_the_microsecond(span_us: int) -> None:
    assert parse_span_us(format_span_us(span_us)) == span_us


def test_spans_keep_microseconds_and_signs() -> None:
    assert parse_span_us("-PT1.0000015S") == -1_000_001
    assert format_span_us(-1_000_001) == "-PT1.000001S"
    assert format_span_us(0) == "PT0S"


@pytest.mark.parametrize("sign", ["", "-"])
def test_a_span_that_could_not_be_read_again_is_refused(sign: str) -> None:
    assert abs(parse_span_us(f"{sign}P106751991D")) == 106_751_991 * 86_400_000_000
    with pytest.raises(ArgumentError, match="too long"):
        parse_span_us(f"{sign}PT{'3' * 57}S")


@settings(deadline=None)
@given(st.text(alphabet="PT0123456789YMWDHS.-", max_size=40))
def test_any_text_is_a_duration_or_an_argument_error(text: str) -> None:
    try:
        parsed_ms = parse_duration(text)
    except ArgumentError:
        return
    assert 0 <= parsed_ms <= DURATION_MAX_MS
    assert parse_duration(format_duration(parsed_ms)) == parsed_ms
