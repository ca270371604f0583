"""Lengths of time as people write them."""

import pytest
from partibus.domain.span import any_span_ms, span_ms

from partibus.domain.errors import ArgumentError


@pytest.mark.parametrize(
    ("text", "ms"),
    [("70ms", 70), ("30s", 30_000), ("1m30s", 90_000), ("1.5h", 5_400_000), ("7d", 604_800_000)],
)
def test_spans(text: str, ms: int) -> None:
    assert span_ms(text) == any_span_ms(text) == ms


def test_iso_8601_too() -> None:
    assert any_span_ms("P7D") == span_ms("7d")


@pytest.mark.parametrize("text", ["", "7", "d", "1 d", "-1s", "٣s", "1s" * 40, "1e3s"])
def test_what_is_none(text: str) -> None:
    with pytest.raises(ArgumentError, match="is not a valid duration"):
        span_ms(text)
