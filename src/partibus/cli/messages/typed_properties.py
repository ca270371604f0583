"""Application properties as typed on a command line: NAME=VALUE, or NAME:TYPE=VALUE.

Owns the syntax of `--property`, which is the same in every verb: text, unless a type is given. A
type is never guessed, since filters distinguish 5 from "5". `send` and similar verbs need AMQP
values (`read_properties`), the verbs that test rules need the values that a rule would see
(`read_values`). It must never send anything.
"""

import datetime
import uuid
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

import typer

from partibus.amqp.codec.types import Described, Int, Symbol, Timestamp
from partibus.cli.quantities import moment_ms
from partibus.domain.annotations import TIMESPAN
from partibus.domain.moments import calendar_moment, timestamp_ms
from partibus.rules.values import read_boolean, read_integer, read_number, read_span
from partibus.rules.view import TICKS_PER_MICROSECOND

INT_LEAST, INT_MOST = -(2**31), 2**31 - 1


class Type(NamedTuple):
    """A type with two conversions: from text to the value that a rule sees, and to AMQP."""

    to_value: Callable[[str], object]
    """Raises ValueError when the text is not of this type."""
    to_amqp: Callable[[object], object]


def _needed(read: Callable[[str], object]) -> Callable[[str], object]:
    """Turn a reader that returns None for invalid text into one that raises."""

    def reader(text: str) -> object:
        value = read(text)
        if value is None:
            raise ValueError(text)
        return value

    return reader


def _int(text: str) -> object:
    number = read_integer(text)
    if number is None or not INT_LEAST <= number <= INT_MOST:
        raise ValueError(text)
    return number


def _nothing(text: str) -> object:
    if text:
        raise ValueError(text)
    return None


def _time(text: str) -> object:
    """As everywhere on the command line: without a zone it is in UTC."""
    return calendar_moment(moment_ms(text))


def _as_it_is(value: object) -> object:
    return value


def _amqp_int(value: object) -> object:
    assert isinstance(value, int)
    return Int(value)


def _amqp_time(value: object) -> object:
    assert isinstance(value, datetime.datetime)
    return Timestamp(timestamp_ms(value))


def _amqp_duration(value: object) -> object:
    assert isinstance(value, datetime.timedelta)
    microseconds = value // datetime.timedelta(microseconds=1)
    return Described(Symbol(TIMESPAN), microseconds * TICKS_PER_MICROSECOND)


TYPES: Final[dict[str, Type]] = {
    "string": Type(str, _as_it_is),
    "int": Type(_int, _amqp_int),
    "long": Type(_needed(read_integer), _as_it_is),
    "double": Type(_needed(read_number), _as_it_is),
    "bool": Type(_needed(read_boolean), _as_it_is),
    "time": Type(_time, _amqp_time),
    "duration": Type(_needed(read_span), _amqp_duration),
    "uuid": Type(uuid.UUID, _as_it_is),
    "guid": Type(uuid.UUID, _as_it_is),
    "null": Type(_nothing, _as_it_is),
}


def read_properties(given: Iterable[str]) -> dict[str, object]:
    """The AMQP values of all `--property` options; of those with the same name the last counts."""
    return {name: kind.to_amqp(value) for name, kind, value in map(_read, given)}


def read_values(given: Iterable[str]) -> dict[str, object]:
    """The same properties as a rule sees them."""
    return {name: value for name, _, value in map(_read, given)}


def _read(text: str) -> tuple[str, Type, object]:
    head, equals, value = text.partition("=")
    name, colon, kind = head.rpartition(":")
    if not colon:
        name, kind = head, "string"
    if not equals or not name:
        raise typer.BadParameter(f"'{text}' is not a property; write NAME=VALUE or NAME:int=5.")
    read = TYPES.get(kind)
    if read is None:
        raise typer.BadParameter(
            f"'{kind}' is not a valid type; the types are {', '.join(TYPES)}. For a name with a "
            "colon, give "
            "the type: a:b:string=VALUE."
        )
    try:
        return name, read, read.to_value(value)
    except ValueError as error:
        raise typer.BadParameter(
            f"'{value}' is not a valid {kind}, in --property {text}."
        ) from error
