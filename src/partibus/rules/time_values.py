"""Times and durations in rules, as operators compare them, and back.

Owns what a `TimeValue` means: a time without an offset is in UTC, a duration is exact to the
microsecond. Called where rules are compiled and checked, and where they are read and written.
"""

import datetime
from typing import Final

from partibus.domain.duration import format_span_us
from partibus.domain.property_value import PropertyValue, TimeKind, TimeValue
from partibus.rules.values import read_moment, read_span

EXAMPLES: Final[dict[TimeKind, str]] = {"dateTime": "2020-07-05T11:12:13Z", "duration": "P1DT2H3M"}
_MICROSECOND: Final = datetime.timedelta(microseconds=1)


def operand(value: PropertyValue) -> object:
    """The value for operators; a time that cannot be parsed stays unchanged."""
    if not isinstance(value, TimeValue):
        return value
    read = read_moment if value.kind == "dateTime" else read_span
    made = read(value.text)
    return value if made is None else made


def time_value(value: datetime.datetime | datetime.timedelta) -> TimeValue:
    """The text of a time or a duration."""
    if isinstance(value, datetime.datetime):
        return TimeValue("dateTime", moment_text(value))
    return TimeValue("duration", span_text(value))


def moment_text(value: datetime.datetime) -> str:
    """An ISO 8601 time."""
    return value.isoformat().replace("+00:00", "Z")


def span_text(value: datetime.timedelta) -> str:
    """An ISO 8601 duration."""
    return format_span_us(value // _MICROSECOND)
