"""Times as HTTP writes them: `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110, 5.6.7).

Owns the conversion from and to milliseconds. Parsing is strict, since a text that only resembles a
time is a text.
"""

import datetime
import re
from typing import Final

_FORM: Final = re.compile(
    r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun), ([0-9]{2}) "
    r"(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) ([0-9]{4}) "
    r"([0-9]{2}):([0-9]{2}):([0-9]{2}) GMT"
)
_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS: Final = (
    *("Jan", "Feb", "Mar", "Apr", "May", "Jun"),
    *("Jul", "Aug", "Sep", "Oct", "Nov", "Dec"),
)
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_LAST_MS: Final = 253_402_300_799_000
"""The end of the year 9999; a later time cannot be written."""


def to_http_date(at_ms: int) -> str:
    """The text of a time, whole seconds."""
    at = _EPOCH + datetime.timedelta(milliseconds=max(0, min(at_ms, _LAST_MS)))
    day, month = _DAYS[at.weekday()], _MONTHS[at.month - 1]
    return f"{day}, {at.day:02} {month} {at.year:04} {at:%H:%M:%S} GMT"


def from_http_date(text: str) -> int | None:
    """The milliseconds of a text of exactly this form; None for any other."""
    match = _FORM.fullmatch(text)
    if match is None:
        return None
    _, day, month, year, hour, minute, second = match.groups()
    try:
        at = datetime.datetime(
            int(year),
            _MONTHS.index(month) + 1,
            int(day),
            int(hour),
            int(minute),
            int(second),
            tzinfo=datetime.UTC,
        )
    except ValueError:
        return None
    return (at - _EPOCH) // datetime.timedelta(milliseconds=1)
