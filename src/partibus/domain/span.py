"""Lengths of time as people write them: 70ms, 30s, 1m30s, 7d.

Owns the reading of such words into milliseconds. ISO 8601 is `domain.duration`'s. Called by the
command line and by the surfaces that take such words.
"""

import re
from typing import Final

from partibus.domain.duration import parse_duration
from partibus.domain.errors import ArgumentError

UNITS_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_SPAN: Final = re.compile(r"(?:[0-9]{1,12}(?:\.[0-9]{1,6})?(?:ms|s|m|h|d))+", re.ASCII)
_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)", re.ASCII)
_TEXT_LENGTH_MAX: Final = 64


def span_ms(text: str) -> int:
    """Milliseconds of a span such as 70ms, 30s, 1m30s or 7d."""
    if len(text) > _TEXT_LENGTH_MAX or not _SPAN.fullmatch(text):
        raise ArgumentError(
            f"'{text[:_TEXT_LENGTH_MAX]}' is not a valid duration; write for example 70ms, 30s, "
            "1m30s or 7d."
        )
    return round(sum(float(number) * UNITS_MS[unit] for number, unit in _PART.findall(text)))


def any_span_ms(text: str) -> int:
    """The same, also of an ISO 8601 duration such as P7D."""
    return parse_duration(text) if text.startswith("P") else span_ms(text)
