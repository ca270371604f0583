"""How SET converts a value: to the type that the property already has, if possible (ACT-2).

Owns the conversions between types, all of them without loss, the text forms of values, and
what a system property accepts. Called by `rules.action`.
"""

import datetime
from typing import Final, cast
from uuid import UUID

from partibus.domain.limits import MESSAGE_ID_LENGTH_MAX, SESSION_ID_LENGTH_MAX
from partibus.rules.time_values import moment_text, span_text
from partibus.rules.values import INTEGER_LEAST, INTEGER_MOST, READERS, failure, kind_of

SETTABLE: Final[dict[str, type]] = {
    **dict.fromkeys(
        (
            "contenttype",
            "correlationid",
            "label",
            "messageid",
            "partitionkey",
            "replyto",
            "replytosessionid",
            "sessionid",
            "to",
            "viapartitionkey",
        ),
        str,
    ),
    "scheduledenqueuetimeutc": datetime.datetime,
    "timetolive": datetime.timedelta,
}
"""The system properties that an action may change, and their types. The others are the
broker's own: numbers, times and sizes that it gives to a message."""
_LENGTHS_MAX: Final = {
    "messageid": MESSAGE_ID_LENGTH_MAX,
    **dict.fromkeys(
        ("sessionid", "replytosessionid", "partitionkey", "viapartitionkey"), SESSION_ID_LENGTH_MAX
    ),
}


def text_of(value: object) -> str | None:
    """A value as text; None if it has no text form."""
    match value:
        case str():
            return value
        case bool():
            return "True" if value else "False"
        case int() | UUID():
            return str(value)
        case float():
            return repr(value).removesuffix(".0")
        case datetime.datetime():
            return moment_text(value)
        case datetime.timedelta():
            return span_text(value)
        case _:
            return None


def converted(value: object, existing: object) -> object:
    """The value in the type of the existing one if nothing is lost; else unchanged."""
    wanted = type(existing)
    if value is None or existing is None or type(value) is wanted:
        return value
    made = _made(value, wanted)
    return value if made is None else made


def _made(value: object, wanted: type) -> object:
    if wanted is str:
        return text_of(value)
    if type(value) is str:
        read = READERS.get(wanted)
        return None if read is None else read(value)
    if wanted is float and type(value) is int:
        return float(value)
    if wanted is int and type(value) is float and value.is_integer():
        return int(value) if INTEGER_LEAST <= value <= INTEGER_MOST else None
    return None


def system_value(name: str, value: object, term: str) -> object:
    """The value as a system property stores it; None clears the property."""
    if value is None:
        return None
    wanted = SETTABLE[name]
    made = value if type(value) is wanted else _made(value, wanted)
    if made is None:
        raise failure(term, f"{kind_of(value)} cannot be converted to {kind_of_type(wanted)}")
    if wanted is str and len(cast(str, made)) > _LENGTHS_MAX.get(name, len(cast(str, made))):
        raise failure(term, f"at most {_LENGTHS_MAX[name]} characters are allowed")
    if type(made) is datetime.timedelta and made < datetime.timedelta(0):
        raise failure(term, "a time to live cannot be negative")
    return made


def kind_of_type(wanted: type) -> str:
    """The name of a system property's type in error texts."""
    return {str: "text", datetime.datetime: "a time"}.get(wanted, "a duration")
