"""Durations, rates and sizes as people type and read them."""

import pytest
import typer

from partibus.cli.quantities import (
    format_bytes,
    format_span,
    moment_ms,
    rate_per_s,
    size_bytes,
    span_ms,
)
from partibus.domain.quantities import format_moment


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("70ms", 70), ("30s", 30_000), ("1.5s", 1500), ("1m30s", 90_000), ("2h", 7_200_000)],
)
def test_durations(text: str, milliseconds: int) -> None:
    assert span_ms(text) == milliseconds


@pytest.mark.parametrize("text", ["", "30", "s", "30 s", "-1s", "30x", "PT30S"])
def test_what_is_no_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="for example: 70ms"):
        span_ms(text)


@pytest.mark.parametrize(("text", "rate"), [("100/s", 100), ("100", 100), ("30/m", 0.5)])
def test_rates(text: str, rate: float) -> None:
    assert rate_per_s(text) == rate


@pytest.mark.parametrize("text", ["", "fast", "100/d", "-1/s"])
def test_what_is_no_rate_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="for example: 100/s"):
        rate_per_s(text)


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(0, "0ms"), (999, "999ms"), (27_240, "27.2s"), (60_000, "1m"), (3_661_000, "1h1m1s")],
)
def test_durations_are_told_in_the_same_words(milliseconds: int, text: str) -> None:
    assert format_span(milliseconds) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(None, "-"), (0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (1 << 26, "64.0 MiB")],
)
def test_sizes(count: int | None, text: str) -> None:
    assert format_bytes(count) == text
    assert format_bytes(5 << 40) == "5.0 TiB"


@pytest.mark.parametrize(
    ("text", "size"), [("512", 512), ("4k", 4096), ("1m", 1 << 20), ("2KiB", 2048)]
)
def test_sizes_as_they_are_typed(text: str, size: int) -> None:
    assert size_bytes(text) == size


@pytest.mark.parametrize("text", ["", "k", "-1", "1x", "1.k"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        size_bytes(text)


def test_moments() -> None:
    assert moment_ms("1970-01-01T00:00:01Z") == 1000
    assert format_moment(1500) == "1970-01-01T00:00:01.500Z"
    assert format_moment(None) is None
    assert span_ms("1d12h") == 36 * 3_600_000
    with pytest.raises(typer.BadParameter):
        moment_ms("tomorrow")


def test_a_time_beyond_the_calendar_is_its_end() -> None:
    assert format_moment(1 << 62) == "9999-12-31T23:59:59.999Z"
    assert format_moment(-(1 << 62)) == "0001-01-01T00:00:00.000Z"
