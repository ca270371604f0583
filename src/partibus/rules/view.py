"""What filters and actions see of a message: its properties, never its body (FLT-6).

Owns the interface between the rules and the code that knows how messages are encoded: the names of
the system properties, the Python types that stand for values, and the view that the caller
implements. `MappingView` is the plain one, for tests and the command line. Nothing here decodes
anything.
"""

import datetime
import enum
from collections.abc import Collection, Mapping
from typing import Final, Protocol
from uuid import UUID

Value = str | int | float | bool | bytes | UUID | datetime.datetime | datetime.timedelta | None
"""The values that operators understand, each of exactly this Python type, not a subclass:
text for strings, symbols and characters; `int` for integers of every width; `float` for
float and double; an aware UTC `datetime` for a timestamp (see `moment`); a `timedelta` for
TimeToLive and for the durations of .NET (see `span_of_ticks`); `None` for null. A view may hand
out anything else for what is none of these (lists, maps, decimals): it exists and is not null,
and every operator on it is an error."""


class Absent(enum.Enum):
    """The type of `ABSENT`."""

    ABSENT = "absent"


TICKS_PER_MICROSECOND: Final = 10
"""Of the vendor's durations, which are numbers of 100 ns."""

ABSENT: Final = Absent.ABSENT
"""What a view returns for a user property that the message does not have."""

SYSTEM_NAMES: Final[Mapping[str, str]] = {
    name.lower(): name
    for name in (
        "MessageId",
        "CorrelationId",
        "Label",
        "To",
        "ReplyTo",
        "SessionId",
        "ReplyToSessionId",
        "ContentType",
        "TimeToLive",
        "EnqueuedTimeUtc",
        "EnqueuedSequenceNumber",
        "SequenceNumber",
        "ScheduledEnqueueTimeUtc",
        "ExpiresAtUtc",
        "DeliveryCount",
        "PartitionKey",
        "ViaPartitionKey",
        "Size",
    )
}
"""The system properties (SQL-13): canonical lower-case name, and as the vendor spells it.
Ids, addresses and keys are text (an id that came as uuid, ulong or binary too), the ...Utc
ones moments, TimeToLive a duration, the numbers and Size integers. What the message lacks
is None."""

SYSTEM_ALIASES: Final[Mapping[str, str]] = {"subject": "label"}
"""Alternative spellings of system names, in lower case."""


class MessageView(Protocol):
    """The properties of one message."""

    def system(self, name: str) -> object:
        """The system property with that canonical lower-case name; None if it is unset."""
        ...

    def user(self, name_lower: str) -> object:
        """The application property with that name in any case (SQL-3), or `ABSENT`."""
        ...

    def names(self) -> Collection[str]:
        """The lower-case names of all application properties."""
        ...


class MappingView:
    """A view of two dictionaries; names are given in any case, system names canonical."""

    __slots__ = ("_system", "_user")

    def __init__(
        self, user: Mapping[str, object] | None = None, system: Mapping[str, object] | None = None
    ) -> None:
        self._user = {name.lower(): value for name, value in (user or {}).items()}
        self._system = {
            SYSTEM_ALIASES.get(name.lower(), name.lower()): value
            for name, value in (system or {}).items()
        }

    def system(self, name: str) -> object:
        """The system property, or None."""
        return self._system.get(name)

    def user(self, name_lower: str) -> object:
        """The application property, or `ABSENT`."""
        return self._user.get(name_lower, ABSENT)

    def names(self) -> Collection[str]:
        """The names of the application properties."""
        return self._user.keys()


def span(duration_ms: int) -> datetime.timedelta:
    """Milliseconds as the duration that a view returns for TimeToLive."""
    try:
        return datetime.timedelta(milliseconds=duration_ms)
    except OverflowError:
        return datetime.timedelta.max


def span_of_ticks(ticks: int) -> datetime.timedelta:
    """A duration as .NET counts it, limited to the range of Python's."""
    try:
        return datetime.timedelta(microseconds=ticks // TICKS_PER_MICROSECOND)
    except OverflowError:
        return datetime.timedelta.min if ticks < 0 else datetime.timedelta.max


def span_ms(value: datetime.timedelta) -> int:
    """The milliseconds of a duration."""
    return value // datetime.timedelta(milliseconds=1)
