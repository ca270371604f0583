"""Durations as tests write them, in the server's form.

Owns the three forms that the kit accepts: text (`7d`, `1m30s`, `P7D`), a `timedelta`, or a number
of seconds. The server decides what is too long.
"""

import datetime

Duration = str | datetime.timedelta | float
"""`"7d"`, `datetime.timedelta(days=7)`, or seconds."""


def spoken(duration: Duration) -> str:
    """The duration as the server reads it."""
    if isinstance(duration, str):
        return duration
    return f"{milliseconds(duration)}ms"


def milliseconds(duration: Duration) -> int:
    """The duration in whole milliseconds."""
    if isinstance(duration, str):
        from partibus.domain.quantities import any_duration_ms

        return any_duration_ms(duration)
    if isinstance(duration, datetime.timedelta):
        return round(duration / datetime.timedelta(milliseconds=1))
    return round(duration * 1000)
