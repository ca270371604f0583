"""Times: from the year 1 to the end of the year 9999 (UTC), in milliseconds since 1970.

Owns the conversion between milliseconds and Python's times, the range that a client may use, which
is that of the vendor's DateTime, its count of ticks, and the refusal of times outside it. Times of
messages are checked once, on arrival; all later code may trust them. Times in application
properties are not checked: code that shows them limits them to the calendar.
"""

import datetime
from typing import Final

from partibus.domain.errors import ArgumentError

MOMENT_MS_MIN: Final = -62_135_596_800_000
"""0001-01-01T00:00:00Z."""
MOMENT_MS_MAX: Final = 253_402_300_799_999
"""9999-12-31T23:59:59.999Z."""
_TICKS_PER_MS: Final = 10_000
EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MILLISECOND: Final = datetime.timedelta(milliseconds=1)


def calendar_moment(at_ms: int) -> datetime.datetime:
    """The time in UTC, limited to the calendar."""
    within_ms = max(MOMENT_MS_MIN, min(at_ms, MOMENT_MS_MAX))
    return EPOCH + within_ms * _MILLISECOND


def timestamp_ms(moment: datetime.datetime) -> int:
    """Whole milliseconds since 1970; a moment without a zone is in UTC."""
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return (moment - EPOCH) // _MILLISECOND


def ticks_of(at_ms: int) -> int:
    """The time as .NET counts it: ticks of 100 ns since the year 1."""
    return (at_ms - MOMENT_MS_MIN) * _TICKS_PER_MS


def moment_of_ticks(ticks: int) -> int:
    """The same in milliseconds since 1970."""
    return ticks // _TICKS_PER_MS + MOMENT_MS_MIN


def checked_moment(name: str, at_ms: int) -> int:
    """The time itself, in milliseconds since 1970; ArgumentError when it is out of range."""
    if not MOMENT_MS_MIN <= at_ms <= MOMENT_MS_MAX:
        raise ArgumentError(
            f"The message's {name} is {at_ms} ms after 1970-01-01, which is out of range; times "
            "from 0001-01-01 to 9999-12-31 (UTC) are allowed. Correct it and send again."
        )
    return at_ms
