"""Durations and rates as people type them: 70ms, 30s, 1m30s, 100/s.

Owns the reading of such words into milliseconds and sends a second, and the writing of what
is left of a duration or how large something is. Called by the verbs' options and tables.
"""

import re
from typing import Final

import typer

_UNITS_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}
_SPAN: Final = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h))+")
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_RATE: Final = re.compile(r"(\d+(?:\.\d+)?)(?:/(s|m|h))?")
_BYTES_STEP: Final = 1024


def span_ms(text: str) -> int:
    """Milliseconds of a duration such as 70ms, 30s, 5m or 1m30s."""
    if not _SPAN.fullmatch(text):
        raise typer.BadParameter(f"'{text}' is no duration; write for example 70ms, 30s or 1m30s.")
    return round(sum(float(number) * _UNITS_MS[unit] for number, unit in _PART.findall(text)))


def rate_per_s(text: str) -> float:
    """Sends a second of a rate such as 100/s, 100 or 30/m."""
    match = _RATE.fullmatch(text)
    if match is None:
        raise typer.BadParameter(f"'{text}' is no rate; write for example 100/s or 30/m.")
    return float(match[1]) * 1000 / _UNITS_MS[match[2] or "s"]


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
