"""Durations, sizes, rates and times as people write them: 70ms, 1h30m, 64MiB, 100/s.

Owns the one grammar of these for the command line, the options of Spark, the settings of
pipelines and the server. A time without a zone is in UTC, wherever it is written. ISO 8601
durations, which entity properties use, are in `domain.duration`.
"""

import datetime
import re
from typing import Final

from partibus.domain.duration import parse_duration
from partibus.domain.errors import ArgumentError
from partibus.domain.moments import calendar_moment, timestamp_ms

UNIT_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION: Final = re.compile(r"(?:\d{1,12}(?:\.\d{1,6})?(?:ms|s|m|h|d))+", re.ASCII)
_DURATION_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", re.ASCII)
_RATE: Final = re.compile(r"(\d+(?:\.\d+)?)(?:/(s|m|h))?")
_SIZE: Final = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)\s*([kmgt]?)(?:i?b)?", re.ASCII)
_SIZE_STEPS: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def duration_ms(text: str) -> int:
    """Milliseconds of a duration such as 70ms, 30s, 5m or 1h30m."""
    if not _DURATION.fullmatch(text):
        raise ArgumentError(f"'{text}' is not a valid duration; for example: 70ms, 30s or 1h30m.")
    parts = _DURATION_PART.findall(text)
    return round(sum(float(number) * UNIT_MS[unit] for number, unit in parts))


def any_duration_ms(text: str) -> int:
    """The same, also of an ISO 8601 duration such as P7D."""
    return parse_duration(text) if text.startswith("P") else duration_ms(text)


def size_bytes(text: str) -> int:
    """Bytes of a size such as 512, 500k, 64MiB or 1.5G; a unit is a power of 1024."""
    match = _SIZE.fullmatch(text.strip().lower())
    if match is None:
        raise ArgumentError(f"'{text}' is not a valid size; for example: 512, 500k or 64MiB.")
    return int(float(match[1]) * _SIZE_STEPS[match[2]])


def format_bytes(count: int) -> str:
    """A size for people: 512 B, 1.3 MiB."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def rate_per_s(text: str) -> float:
    """How many a second, of a rate such as 100/s, 100 or 30/m."""
    match = _RATE.fullmatch(text)
    if match is None:
        raise ArgumentError(f"'{text}' is not a valid rate; for example: 100/s or 30/m.")
    return float(match[1]) * 1000 / UNIT_MS[match[2] or "s"]


def moment_ms(text: str) -> int:
    """Milliseconds since 1970 of an ISO 8601 time; without a zone it is in UTC."""
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError as error:
        raise ArgumentError(
            f"'{text}' is not a valid time; for example: 2026-01-31T12:00:00Z."
        ) from error
    return timestamp_ms(moment)


def format_moment(time_ms: int | None) -> str | None:
    """A time as programs read it, in UTC."""
    return None if time_ms is None else moment_text(time_ms)


def moment_text(time_ms: int) -> str:
    """The same of a time that there is."""
    moment = calendar_moment(time_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
