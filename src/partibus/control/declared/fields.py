"""From the untyped values of a file to the typed ones of a spec.

Owns how each form of value is written in a file. The keys of an entity follow from the table of
`domain.entity_properties`. Unknown keys and wrong types are errors that say what is allowed. Ranges
are not checked here: they depend on the profile (`domain.admission`). Called by the readers of TOML
and of the emulator's JSON.
"""

import datetime
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

from partibus.control.declared.source import DefinitionSource
from partibus.domain.duration import parse_duration
from partibus.domain.entity import CorrelationFilter, EntityStatus
from partibus.domain.entity_properties import PROPERTIES, Form, Kind
from partibus.domain.errors import ArgumentError, ConfigError
from partibus.domain.property_value import PropertyValue, TimeKind, TimeValue
from partibus.domain.toml_lines import Where

Table = Mapping[str, object]
_Value = TypeVar("_Value")
TIMES: Final[dict[str, TimeKind]] = {"time": "dateTime", "duration": "duration"}
"""How a file writes values without a native type: { duration = "PT30S" }."""


class Field(NamedTuple):
    """Which field of the spec a key sets, and how its value is read."""

    target: str
    read: Callable[[object], object]


# --- single values; each raises ArgumentError -------------------------------------------------


def text(value: object) -> str:
    """A string."""
    if not isinstance(value, str):
        raise ArgumentError(f"expected a string, got {_spoken(value)}.")
    return value


def boolean(value: object) -> bool:
    """true or false, not a string."""
    if not isinstance(value, bool):
        raise ArgumentError(f"expected true or false, got {_spoken(value)}.")
    return value


def integer(value: object) -> int:
    """A whole number."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ArgumentError(f"expected a whole number, got {_spoken(value)}.")
    return value


def duration_ms(value: object) -> int:
    """An ISO 8601 duration."""
    if not isinstance(value, str):
        raise ArgumentError(f'expected a duration such as "PT30S", got {_spoken(value)}.')
    return parse_duration(value)


def status(value: object) -> EntityStatus:
    """The name of a status."""
    for member in EntityStatus:
        if member.value == value:
            return member
    raise ArgumentError(
        f"{_spoken(value)} is not a status; allowed: Active, Disabled, SendDisabled and "
        "ReceiveDisabled."
    )


def property_values(value: object) -> dict[str, PropertyValue]:
    """A table of application properties for a correlation filter."""
    if not isinstance(value, Mapping):
        raise ArgumentError(f"expected a table of properties, got {_spoken(value)}.")
    return {str(name): _property_value(name, item) for name, item in value.items()}


def _property_value(name: object, value: object) -> PropertyValue:
    if isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, datetime.datetime):
        return TimeValue("dateTime", value.isoformat())
    if isinstance(value, Mapping) and len(value) == 1:
        ((word, text),) = value.items()
        if word in TIMES and isinstance(text, str):
            return TimeValue(TIMES[word], text)
    raise ArgumentError(
        f"'{name}' must be text, a number, true or false, a time or a duration such as "
        '{ duration = "PT30S" }.'
    )


def property_table(values: Mapping[str, PropertyValue]) -> dict[str, object]:
    """The same table as a definitions file writes it."""
    words = {kind: word for word, kind in TIMES.items()}
    return {
        name: {words[value.kind]: value.text} if isinstance(value, TimeValue) else value
        for name, value in values.items()
    }


def _spoken(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return "null"
    if isinstance(value, Mapping):
        return "a table"
    if isinstance(value, list):
        return "a list"
    return f"'{value}'"


# --- tables of keys ---------------------------------------------------------------------------

_READERS: Final[Mapping[Form, Callable[[object], object]]] = {
    "text": text,
    "boolean": boolean,
    "integer": integer,
    "duration": duration_ms,
    "status": status,
}


def _fields(kind: Kind) -> dict[str, Field]:
    return {known.key: Field(known.field, _READERS[known.form]) for known in PROPERTIES[kind]}


_PARTITION_COUNT: Final = {"partition_count": Field("fragments", integer)}
"""Only files set it: the management API has no element for it."""
QUEUE_FIELDS: Final[Mapping[str, Field]] = _fields("queue") | _PARTITION_COUNT
TOPIC_FIELDS: Final[Mapping[str, Field]] = _fields("topic") | _PARTITION_COUNT
SUBSCRIPTION_FIELDS: Final[Mapping[str, Field]] = _fields("subscription")
CORRELATION_FIELDS: Final[Mapping[str, Field]] = {
    name: Field(name, property_values if name == "properties" else text)
    for name in CorrelationFilter.__dataclass_fields__
}


# --- reading ------------------------------------------------------------------------------------


@dataclass(slots=True, frozen=True)
class Section:
    """A table of a file, and where it is; each error names that place."""

    source: DefinitionSource
    where: Where
    table: Table

    def error(self, key: str, reason: str) -> ConfigError:
        """The error for a key of this table."""
        return self.source.error((*self.where, key), reason)

    def refuse_unknown(self, allowed: Collection[str]) -> None:
        """An unknown key is an error that names the likely or the allowed ones."""
        for key in self.table:
            if key not in allowed:
                raise self.error(key, f"unknown key; {_suggest(key, allowed)}")

    def read(self, key: str, read: Callable[[object], _Value], missing: object = None) -> _Value:
        """The value of a key; a wrong one is an error."""
        try:
            return read(self.table.get(key, missing))
        except ArgumentError as error:
            raise self.error(key, error.text) from error

    def text(self, key: str) -> str:
        """The string of a required key."""
        self._require(key)
        return self.read(key, text)

    def spec(self, fields: Mapping[str, Field], make: Callable[..., _Value]) -> _Value:
        """A spec from the keys that `fields` lists; other keys are left to the caller."""
        listed = [(key, fields[key]) for key in self.table if key in fields]
        return make(**{field.target: self.read(key, field.read) for key, field in listed})

    def child(self, key: str) -> "Section":
        """The table of a required key."""
        self._require(key)
        return self.optional(key)

    def optional(self, key: str) -> "Section":
        """The table of a key; a missing one is empty."""
        return section(self.source, (*self.where, key), self.table.get(key, {}))

    def children(self, key: str) -> list["Section"]:
        """The tables of a list; a missing one is empty."""
        value = self.table.get(key, [])
        if not isinstance(value, list):
            raise self.error(key, f"expected a list, got {_spoken(value)}.")
        return [section(self.source, (*self.where, key, n), item) for n, item in enumerate(value)]

    def _require(self, key: str) -> None:
        if key not in self.table:
            raise self.source.error(self.where, f"the key '{key}' is missing.")


def section(source: DefinitionSource, where: Where, value: object) -> Section:
    """The table at a place; another value is an error."""
    if not isinstance(value, Mapping):
        raise source.error(where, f"expected a table, got {_spoken(value)}.")
    return Section(source, where, value)


def _suggest(key: str, allowed: Collection[str]) -> str:
    import difflib

    close = difflib.get_close_matches(key, allowed, n=1)
    return (
        f"did you mean '{close[0]}'?" if close else f"expected one of {', '.join(sorted(allowed))}."
    )
