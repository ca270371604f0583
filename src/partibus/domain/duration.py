"""ISO 8601 durations, the form in which entity properties speak of time (PRP-1).

Owns the way from text to milliseconds and back. Values beyond the vendor's largest span
are that span (`DURATION_MAX_MS`), which everywhere means "without limit". Precision
below a millisecond is cut off. Called by the file readers and the admin surfaces.
"""

import re
from typing import Final

from partibus.domain.errors import ArgumentError

_SECOND_MS: Final = 1000
_MINUTE_MS: Final = 60 * _SECOND_MS
_HOUR_MS: Final = 60 * _MINUTE_MS
_DAY_MS: Final = 24 * _HOUR_MS

# The largest 64-bit count of 100 ns ticks: 2**63 - 1 ticks = 922 337 203 685 477.5807 ms.
DURATION_MAX_MS: Final = (2**63 - 1) // 10_000
DURATION_MAX_TEXT: Final = "P10675199DT2H48M5.4775807S"
# Clients re-send the largest span with a rounded fraction, so whole days decide.
_UNLIMITED_FROM_MS: Final = 10_675_199 * _DAY_MS

_PATTERN: Final = re.compile(
    r"P(?=[0-9T])(?:([0-9]+)Y)?(?:([0-9]+)M)?(?:([0-9]+)W)?(?:([0-9]+)D)?"
    r"(?:T(?=[0-9])(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+)(?:\.([0-9]{1,9}))?S)?)?",
)
# Longer texts cannot be honest durations; refusing them bounds the arithmetic below.
_TEXT_LENGTH_MAX: Final = 64
# A year is 365 days and a month 30, as in the vendor's own conversion.
_UNITS_MS: Final = (365 * _DAY_MS, 30 * _DAY_MS, 7 * _DAY_MS, _DAY_MS, _HOUR_MS, _MINUTE_MS)


def parse_duration(text: str) -> int:
    """Milliseconds of an ISO 8601 duration such as `PT1M30S`, at most `DURATION_MAX_MS`."""
    match = _PATTERN.fullmatch(text) if len(text) <= _TEXT_LENGTH_MAX else None
    if match is None:
        raise ArgumentError(
            f"'{text[:_TEXT_LENGTH_MAX]}' is not an ISO 8601 duration; write for example "
            "PT30S, PT1M30S or P7D."
        )
    *whole, seconds, fraction = match.groups()
    total_ms = sum(int(n) * unit for n, unit in zip(whole, _UNITS_MS, strict=True) if n)
    total_ms += int(seconds or 0) * _SECOND_MS + int((fraction or "").ljust(3, "0")[:3])
    return DURATION_MAX_MS if total_ms >= _UNLIMITED_FROM_MS else total_ms


def format_duration(duration_ms: int) -> str:
    """The ISO 8601 text of a duration; the unlimited one is the vendor's own text."""
    assert duration_ms >= 0, "durations are never negative"
    if duration_ms >= _UNLIMITED_FROM_MS:
        return DURATION_MAX_TEXT
    days, rest_ms = divmod(duration_ms, _DAY_MS)
    hours, rest_ms = divmod(rest_ms, _HOUR_MS)
    minutes, rest_ms = divmod(rest_ms, _MINUTE_MS)
    seconds, millis = divmod(rest_ms, _SECOND_MS)
    date = f"{days}D" if days else ""
    time = f"{hours}H" if hours else ""
    time += f"{minutes}M" if minutes else ""
    if millis:
        time += f"{seconds}.{millis:03d}".rstrip("0") + "S"
    elif seconds or not (date or time):
        time += f"{seconds}S"
    return f"P{date}T{time}" if time else f"P{date}"
