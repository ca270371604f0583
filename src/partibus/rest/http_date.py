"""Times as HTTP writes them: `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110, 5.6.7).

Owns the conversion from and to milliseconds. Parsing is strict, since a text that only resembles a
time is a text.
"""

import datetime
import re
from email.utils import format_datetime
from typing import Final

from partibus.domain.moments import calendar_moment, timestamp_ms

_FORM: Final = re.compile(
    r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun), ([0-9]{2}) "
    r"(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) ([0-9]{4}) "
    r"([0-9]{2}):([0-9]{2}):([0-9]{2}) GMT"
)
_MONTHS: Final = (
    *("Jan", "Feb", "Mar", "Apr", "May", "Jun"),
    *("Jul", "Aug", "Sep", "Oct", "Nov", "Dec"),
)


def to_http_date(at_ms: int) -> str:
    """The text of a time, whole seconds."""
    return format_datetime(calendar_moment(max(0, at_ms)), usegmt=True)


def from_http_date(text: str) -> int | None:
    """The milliseconds of a text of exactly this form; None for any other."""
    match = _FORM.fullmatch(text)
    if match is None:
        return None
    day, year, hour, minute, second = (int(match[group]) for group in (2, 4, 5, 6, 7))
    month = _MONTHS.index(match[3]) + 1
    try:
        at = datetime.datetime(year, month, day, hour, minute, second, tzinfo=datetime.UTC)
    except ValueError:
        return None
    return timestamp_ms(at)
