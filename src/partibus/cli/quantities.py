"""Durations, moments and rates as people type them: 70ms, 30s, 1m30s, 2d, 100/s.

Owns the reading of such words into milliseconds and sends a second, and the writing of what
is left of a duration or how large something is. Called by the verbs' options and tables.
"""

import datetime
import re
from typing import Final

import typer

from partibus.domain import span
from partibus.domain.errors import ArgumentError

_RATE: Final = re.compile(r"(\d+(?:\.\d+)?)(?:/(s|m|h))?")
_SIZE: Final = re.compile(r"(\d{1,9})([km]?)(?:i?b)?")
_BYTES_STEP: Final = 1024


def span_ms(text: str) -> int:
    """Milliseconds of a duration such as 70ms, 30s, 5m or 1m30s."""
    try:
        return span.span_ms(text)
    except ArgumentError as error:
        raise typer.BadParameter(
            f"'{text}' is no duration; write for example 70ms, 30s or 1m30s."
        ) from error


def moment_ms(text: str) -> int:
    """Milliseconds since 1970 of an ISO 8601 time; without a zone it is the machine's own."""
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError as error:
        raise typer.BadParameter(
            f"'{text}' is no time; write for example 2026-01-31T12:00:00Z."
        ) from error
    return round(moment.timestamp() * 1000)


def spoken_moment(time_ms: int | None) -> str | None:
    """A time as programs read it, in UTC."""
    if time_ms is None:
        return None
    moment = datetime.datetime.fromtimestamp(time_ms / 1000, datetime.UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def clock_time(time_ms: int | None) -> str:
    """A time for people: theirs, to the second."""
    if time_ms is None:
        return "-"
    moment = datetime.datetime.fromtimestamp(time_ms / 1000).astimezone()
    return moment.strftime("%Y-%m-%d %H:%M:%S")


def rate_per_s(text: str) -> float:
    """Sends a second of a rate such as 100/s, 100 or 30/m."""
    match = _RATE.fullmatch(text)
    if match is None:
        raise typer.BadParameter(f"'{text}' is no rate; write for example 100/s or 30/m.")
    return float(match[1]) * 1000 / span.UNITS_MS[match[2] or "s"]


def size_bytes(text: str) -> int:
    """Bytes of a size such as 512, 4k or 1m."""
    match = _SIZE.fullmatch(text.lower())
    if match is None:
        raise typer.BadParameter(f"'{text}' is no size; write for example 512, 4k or 1m.")
    steps: int = " km".index(match[2] or " ")
    return int(match[1]) * int(_BYTES_STEP**steps)


def spoken_span(duration_ms: int) -> str:
    """A duration in the words that `span_ms` reads."""
    if duration_ms < 1000:
        return f"{duration_ms}ms"
    if duration_ms < 60_000:
        return f"{duration_ms / 1000:.3g}s"
    minutes, seconds = divmod(round(duration_ms / 1000), 60)
    hours, minutes = divmod(minutes, 60)
    parts = [(hours, "h"), (minutes, "m"), (seconds, "s")]
    return "".join(f"{number}{unit}" for number, unit in parts if number)


def spoken_bytes(count: int | None) -> str:
    """A size for people."""
    if count is None:
        return "-"
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < _BYTES_STEP:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= _BYTES_STEP
    return f"{size:.1f} TiB"
