"""Durations, times, rates and sizes on the command line, as arguments and in tables.

Owns how a wrong one is reported, and how a duration, a time or a size is printed;
`domain.quantities` parses them. Called by the verbs' options and tables.
"""

from collections.abc import Callable
from typing import TypeVar

import typer

from partibus.domain import quantities
from partibus.domain.errors import ArgumentError
from partibus.domain.moments import calendar_moment

_Value = TypeVar("_Value")


def span_ms(text: str) -> int:
    """Milliseconds of a duration such as 70ms, 30s, 5m or 1m30s."""
    return _argument(quantities.duration_ms, text)


def moment_ms(text: str) -> int:
    """Milliseconds since 1970 of an ISO 8601 time; without a zone it is in UTC."""
    return _argument(quantities.moment_ms, text)


def rate_per_s(text: str) -> float:
    """Sends a second of a rate such as 100/s, 100 or 30/m."""
    return _argument(quantities.rate_per_s, text)


def size_bytes(text: str) -> int:
    """Bytes of a size such as 512, 4k or 1m."""
    return _argument(quantities.size_bytes, text)


def _argument(read: Callable[[str], _Value], text: str) -> _Value:
    try:
        return read(text)
    except ArgumentError as error:
        raise typer.BadParameter(error.text) from error


def clock_time(time_ms: int | None) -> str:
    """A time for people: in UTC, to the second."""
    if time_ms is None:
        return "-"
    moment = calendar_moment(time_ms)
    return moment.strftime("%Y-%m-%d %H:%M:%SZ")


def format_span(duration_ms: int) -> str:
    """A duration in the form that `span_ms` reads."""
    if duration_ms < 1000:
        return f"{duration_ms}ms"
    if duration_ms < 60_000:
        return f"{duration_ms / 1000:.3g}s"
    minutes, seconds = divmod(round(duration_ms / 1000), 60)
    hours, minutes = divmod(minutes, 60)
    parts = [(hours, "h"), (minutes, "m"), (seconds, "s")]
    return "".join(f"{number}{unit}" for number, unit in parts if number)


def format_bytes(count: int | None) -> str:
    """A size for people."""
    return "-" if count is None else quantities.format_bytes(count)
