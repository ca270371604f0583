"""What operators do with values: comparisons, arithmetic, and which types fit together.

Owns SQL-5 and SQL-8 value by value: C#'s promotion of 64-bit integers and doubles, null as unknown,
and an `EvaluationError` that names the term if types do not match or a result is out of range.
Times, durations and guids have no literals, so text is converted when it is compared with one. Pure
functions, called by the closures of `rules.compiler`.
"""

import datetime
import math
import operator
import re
from collections.abc import Callable
from typing import Final, cast
from uuid import UUID

from partibus.domain.duration import parse_span_us
from partibus.domain.errors import ArgumentError
from partibus.domain.limits import PROPERTY_BYTES_MAX
from partibus.rules.errors import EvaluationError

INTEGER_LEAST: Final = -(2**63)
INTEGER_MOST: Final = 2**63 - 1
TEXT_LENGTH_MAX: Final = PROPERTY_BYTES_MAX
"""No property is longer; a chain of concatenations must not grow without limit."""

Relation = Callable[[object, object], bool]
RELATIONS: Final[dict[str, Relation]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": cast(Relation, operator.lt),
    "<=": cast(Relation, operator.le),
    ">": cast(Relation, operator.gt),
    ">=": cast(Relation, operator.ge),
}
ORDERED: Final = frozenset({str, int, float, datetime.datetime, datetime.timedelta})
"""Types whose values can be compared by every relation."""
_EQUATED: Final = frozenset({bool, bytes, UUID})
_NUMBERS: Final = frozenset({int, float})

_KINDS: Final[dict[type, str]] = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "a boolean",
    bytes: "binary",
    UUID: "a guid",
    datetime.datetime: "a time",
    datetime.timedelta: "a duration",
    type(None): "null",
}
# The constant format of a .NET TimeSpan: [-][d.]hh:mm:ss[.fffffff]
_CLOCK: Final = re.compile(
    r"(-?)(?:([0-9]{1,8})\.)?([0-9]{1,2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,7}))?"
)
TIME_LENGTH_MAX: Final = 64
"""Longer texts are not times, and are shortened in errors."""


def kind_of(value: object) -> str:
    """The name of a value's type in error texts."""
    return _KINDS.get(type(value), "a value of an unsupported type")


def failure(term: str, reason: str) -> EvaluationError:
    """The error of a term that cannot be evaluated for this message."""
    return EvaluationError(f"{reason}, in: {term}")


# --- comparison ---------------------------------------------------------------------------------


def compare(symbol: str, left: object, right: object, term: str) -> bool | None:
    """Whether a relation holds; None if unknown."""
    if left is None or right is None:
        return None
    left_type, right_type = type(left), type(right)
    if left_type in _NUMBERS and right_type in _NUMBERS:
        if left_type is not right_type:
            left, right = float(cast(float, left)), float(cast(float, right))
        return RELATIONS[symbol](left, right)
    if left_type is not right_type:
        left, right = _fitted(left, right, term)
        left_type = type(left)
    if left_type in ORDERED or (left_type in _EQUATED and symbol in ("=", "<>")):
        return RELATIONS[symbol](left, right)
    raise failure(
        term, f"{kind_of(left)} has no order" if left_type in _EQUATED else _misfit(left, right)
    )


def _misfit(left: object, right: object) -> str:
    return f"{kind_of(left)} cannot be compared with {kind_of(right)}"


def _fitted(left: object, right: object, term: str) -> tuple[object, object]:
    """Both values in one type, converting text if necessary."""
    text, other = (left, right) if type(left) is str else (right, left)
    read = READERS.get(type(other))
    if type(text) is not str or read is None or type(other) in _NUMBERS or type(other) is bool:
        raise failure(term, _misfit(left, right))
    made = read(text)
    if made is None:
        raise failure(term, f"'{text[:TIME_LENGTH_MAX]}' is not {kind_of(other)}")
    return (made, right) if text is left else (left, made)


# --- text as something else -----------------------------------------------------------------------


def read_moment(text: str) -> datetime.datetime | None:
    """The UTC time of an ISO 8601 text; one without an offset is in UTC."""
    if len(text) > TIME_LENGTH_MAX:
        return None
    try:
        moment = datetime.datetime.fromisoformat(text)
        if moment.tzinfo is None:
            return moment.replace(tzinfo=datetime.UTC)
        return moment.astimezone(datetime.UTC)
    except (ValueError, OverflowError):
        return None


def read_span(text: str) -> datetime.timedelta | None:
    """The duration of `[-]PT1M30S` or `[-][d.]hh:mm:ss[.fffffff]`."""
    match = _CLOCK.fullmatch(text) if len(text) <= TIME_LENGTH_MAX else None
    if match is None:
        try:
            return datetime.timedelta(microseconds=parse_span_us(text))
        except (ArgumentError, OverflowError):
            return None
    sign, days, hours, minutes, seconds, fraction = match.groups()
    span = datetime.timedelta(
        days=int(days or 0),
        hours=int(hours),
        minutes=int(minutes),
        seconds=int(seconds),
        microseconds=int((fraction or "").ljust(6, "0")[:6]),
    )
    return -span if sign else span


def read_guid(text: str) -> UUID | None:
    """The guid of a text."""
    try:
        return UUID(text) if len(text) <= TIME_LENGTH_MAX else None
    except ValueError:
        return None


def read_integer(text: str) -> int | None:
    """The 64-bit integer of a text."""
    if len(text) > TIME_LENGTH_MAX or not re.fullmatch(r"\s*[+-]?[0-9]+\s*", text):
        return None
    number = int(text)
    return number if INTEGER_LEAST <= number <= INTEGER_MOST else None


def read_number(text: str) -> float | None:
    """The double of a text."""
    if len(text) > TIME_LENGTH_MAX or "_" in text:
        return None
    try:
        return float(text)
    except ValueError:
        return None


def read_boolean(text: str) -> bool | None:
    """`true` or `false` in any case."""
    return {"true": True, "false": False}.get(text.strip().lower())


READERS: Final[dict[type, Callable[[str], object]]] = {
    datetime.datetime: read_moment,
    datetime.timedelta: read_span,
    UUID: read_guid,
    int: read_integer,
    float: read_number,
    bool: read_boolean,
}
"""How text is converted to a value of a type; None if it cannot be."""


# --- arithmetic -----------------------------------------------------------------------------------


def calculate(symbol: str, left: object, right: object, term: str) -> object:
    """The result of an operator; None if unknown."""
    if left is None or right is None:
        return None
    left_type, right_type = type(left), type(right)
    if left_type is int and right_type is int:
        return _integers(symbol, cast(int, left), cast(int, right), term)
    if left_type in _NUMBERS and right_type in _NUMBERS:
        return _doubles(symbol, float(cast(float, left)), float(cast(float, right)))
    if left_type is str and right_type is str and symbol == "+":
        return concatenate(cast(str, left), cast(str, right), term)
    if symbol in "+-" and datetime.timedelta in (left_type, right_type):
        return _times(symbol, left, right, term)
    if symbol == "-" and left_type is right_type is datetime.datetime:
        return cast(datetime.datetime, left) - cast(datetime.datetime, right)
    raise failure(term, _unfit(symbol, left, right))


def _unfit(symbol: str, left: object, right: object) -> str:
    return f"{symbol} does not work on {kind_of(left)} and {kind_of(right)}"


def _integers(symbol: str, left: int, right: int, term: str) -> int:
    if symbol == "+":
        result = left + right
    elif symbol == "-":
        result = left - right
    elif symbol == "*":
        result = left * right
    elif right == 0:
        raise failure(term, "division by zero")
    else:  # towards zero, and the rest has the sign of the dividend
        quotient = abs(left) // abs(right)
        quotient = -quotient if (left < 0) != (right < 0) else quotient
        result = quotient if symbol == "/" else left - quotient * right
    return bounded(result, term)


def bounded(number: int, term: str) -> int:
    """The number, if it fits into 64 bits."""
    if not INTEGER_LEAST <= number <= INTEGER_MOST:
        raise failure(term, "the whole number has more than 64 bits")
    return number


def _doubles(symbol: str, left: float, right: float) -> float:
    if symbol == "+":
        return left + right
    if symbol == "-":
        return left - right
    if symbol == "*":
        return left * right
    if symbol == "%":
        return math.nan if math.isinf(left) or right == 0 else math.fmod(left, right)
    if right != 0:
        return left / right
    if left == 0 or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def concatenate(left: str, right: str, term: str) -> str:
    """Both texts joined, unless the result is too long for a property."""
    if len(left) + len(right) > TEXT_LENGTH_MAX:
        raise failure(term, f"the text has more than {TEXT_LENGTH_MAX} characters")
    return left + right


def _times(symbol: str, left: object, right: object, term: str) -> object:
    """A time or a duration, shifted by a duration."""
    apply = cast(Callable[[object, object], object], _MOVES[symbol])
    moved = (datetime.datetime, datetime.timedelta)
    if not isinstance(left, moved) or not isinstance(right, moved):
        raise failure(term, _unfit(symbol, left, right))
    try:
        return apply(left, right)
    except TypeError:  # a duration minus a time
        raise failure(term, _unfit(symbol, left, right)) from None
    except OverflowError:
        raise failure(term, "the time is out of range") from None


_MOVES: Final = {"+": operator.add, "-": operator.sub}


def signed(symbol: str, value: object, term: str) -> object:
    """`+` or `-` before a value."""
    if value is None:
        return None
    if type(value) is int:
        return value if symbol == "+" else bounded(-value, term)
    if type(value) is float:
        return value if symbol == "+" else -value
    if type(value) is datetime.timedelta:
        try:
            return value if symbol == "+" else -value
        except OverflowError:
            raise failure(term, "the duration is too long") from None
    raise failure(term, f"{symbol} does not work on {kind_of(value)}")
