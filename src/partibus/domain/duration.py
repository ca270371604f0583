"""ISO 8601 durations, the form of durations in entity properties (PRP-1).

Owns the conversion from text to milliseconds and back. Values beyond the vendor's largest span
become that span (`DURATION_MAX_MS`), which everywhere means "unlimited". Precision below a
millisecond is cut off. The durations of rules are read and written here too: those are exact to the
microsecond, and may be negative. Called by the file readers, the admin surfaces and the rules.
"""

import re
from typing import Final

from partibus.domain.errors import ArgumentError

_US_PER_MS: Final = 1000
_SECOND_MS: Final = 1000
_MINUTE_MS: Final = 60 * _SECOND_MS
_HOUR_MS: Final = 60 * _MINUTE_MS
_DAY_MS: Final = 24 * _HOUR_MS

# The largest 64-bit count of 100 ns ticks: 2**63 - 1 ticks = 922 337 203 685 477.5807 ms.
DURATION_MAX_MS: Final = (2**63 - 1) // 10_000
# A span in a rule fits into 64 bits of microseconds: 106 751 991 days.
_SPAN_MAX_US: Final = 2**63 - 1
DURATION_MAX_TEXT: Final = "P10675199DT2H48M5.4775807S"
# Clients re-send the largest span with a rounded fraction, so whole days decide.
_UNLIMITED_FROM_MS: Final = 10_675_199 * _DAY_MS

_PATTERN: Final = re.compile(
    r"P(?=[0-9T])(?:([0-9]+)Y)?(?:([0-9]+)M)?(?:([0-9]+)W)?(?:([0-9]+)D)?"
    r"(?:T(?=[0-9])(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+)(?:\.([0-9]{1,9}))?S)?)?"
)
# Longer texts are not valid durations; refusing them bounds the arithmetic below.
_TEXT_LENGTH_MAX: Final = 64
# A year is 365 days and a month 30, as in the vendor's own conversion.
_UNITS_MS: Final = (365 * _DAY_MS, 30 * _DAY_MS, 7 * _DAY_MS, _DAY_MS, _HOUR_MS, _MINUTE_MS)


def parse_duration(text: str) -> int:
    """Milliseconds of an ISO 8601 duration such as `PT1M30S`, at most `DURATION_MAX_MS`."""
    total_ms = _microseconds(text) // _US_PER_MS
    return DURATION_MAX_MS if total_ms >= _UNLIMITED_FROM_MS else total_ms


def parse_span_us(text: str) -> int:
    """Microseconds of an ISO 8601 duration, which may have a minus sign."""
    span_us = _microseconds(text.removeprefix("-"))
    if span_us > _SPAN_MAX_US:
        raise ArgumentError(f"'{text}' is too long; the longest duration in a rule is P106751991D.")
    return -span_us if text.startswith("-") else span_us


def _microseconds(text: str) -> int:
    match = _PATTERN.fullmatch(text) if len(text) <= _TEXT_LENGTH_MAX else None
    if match is None:
        raise ArgumentError(
            f"'{text[:_TEXT_LENGTH_MAX]}' is not an ISO 8601 duration; for example: PT30S, "
            "PT1M30S or P7D."
        )
    *whole, seconds, fraction = match.groups()
    total_ms = sum(int(n) * unit for n, unit in zip(whole, _UNITS_MS, strict=True) if n)
    total_ms += int(seconds or 0) * _SECOND_MS
    return total_ms * _US_PER_MS + int((fraction or "").ljust(6, "0")[:6])


def format_duration(duration_ms: int) -> str:
    """The ISO 8601 text of a duration; the unlimited one is the vendor's own text."""
    assert duration_ms >= 0, "durations are never negative"
    if duration_ms >= _UNLIMITED_FROM_MS:
        return DURATION_MAX_TEXT
    return _text(duration_ms * _US_PER_MS)


def format_span_us(span_us: int) -> str:
    """The ISO 8601 text of a number of microseconds."""
    return f"-{_text(-span_us)}" if span_us < 0 else _text(span_us)


def _text(span_us: int) -> str:
    span_ms, micros = divmod(span_us, _US_PER_MS)
    days, rest_ms = divmod(span_ms, _DAY_MS)
    hours, rest_ms = divmod(rest_ms, _HOUR_MS)
    minutes, rest_ms = divmod(rest_ms, _MINUTE_MS)
    seconds, millis = divmod(rest_ms, _SECOND_MS)
    date = f"{days}D" if days else ""
    time = f"{hours}H" if hours else ""
    time += f"{minutes}M" if minutes else ""
    if millis or micros:
        time += f"{seconds}.{millis:03d}{micros:03d}".rstrip("0") + "S"
    elif seconds or not (date or time):
        time += f"{seconds}S"
    return f"P{date}T{time}" if time else f"P{date}"
