"""Settings from a table: TOML, command-line options or a dict of code, read by the same rules.

Owns the forms of values (durations, sizes, moments, switches) and the complaints about them. The
fields of a settings dataclass, made with `setting`, say what there is; a key is the field's name
without its unit (`window_time` for `window_time_ms`). Combinations are for each pipeline to judge.
"""

import dataclasses
import datetime
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

from pyspark_servicebus.pipelines.run.place import PLACE_KEYS, BusPlace
from pyspark_servicebus.pipelines.run.settings import SettingsError, nearest

Form = Literal["text", "texts", "number", "real", "switch", "duration", "size", "moment", "bus"]
Settings = TypeVar("Settings")
_UNITS: Final = ("_ms", "_bytes")
_UNIT_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_SPAN: Final = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+")
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_SIZE: Final = re.compile(r"(\d+)\s*([kmg]?)(?:i?b)?")
_STEPS: Final = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}
_SWITCHES: Final = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting, as files and the command line know it."""

    key: str
    field: str
    help: str
    form: Form
    default: object
    choices: tuple[str, ...]
    least: float | None

    @property
    def is_required(self) -> bool:
        """Whether there is no default."""
        return self.default is dataclasses.MISSING


def setting(
    help_text: str,
    form: Form = "text",
    *,
    default: object = dataclasses.MISSING,
    choices: tuple[str, ...] = (),
    least: float | None = None,
) -> Any:
    """A field of a settings dataclass, with what people are told about it.

    The form `bus` is for a field of the type BusPlace, read from the keys of that class."""
    metadata = {"help": help_text, "form": form, "choices": choices, "least": least}
    return dataclasses.field(default=default, metadata=metadata)


def settings_of(kind: type[object]) -> Iterator[Setting]:
    """The settings of a dataclass, but the bus, in their order."""
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]
        told = field.metadata
        if told.get("form", "bus") == "bus":
            continue
        key = field.name
        for unit in _UNITS:
            key = key.removesuffix(unit)
        yield Setting(
            key,
            field.name,
            told["help"],
            told["form"],
            field.default,
            told["choices"],
            told["least"],
        )


def bus_field(kind: type[object]) -> str | None:
    """The name of the field for the bus."""
    fields = dataclasses.fields(kind)  # type: ignore[arg-type]
    return next((field.name for field in fields if field.metadata.get("form") == "bus"), None)


def read_table(kind: type[Settings], table: Mapping[str, object]) -> Settings:
    """Settings of this kind; SettingsError tells everything that is wrong with the table."""
    known = {found.key: found for found in settings_of(kind)}
    place = bus_field(kind)
    keys = (*known, *(PLACE_KEYS if place else ()), *((place,) if place else ()))
    complaints = [
        f"{name}: there is no such setting; did you mean {nearest(name, keys)}?"
        for name in table
        if name not in keys
    ]
    values: dict[str, Any] = {}
    for found in known.values():
        given = table.get(found.key)
        if given is None:
            if found.is_required:
                complaints.append(f"{found.key}: it is missing. {found.help}")
            continue
        try:
            values[found.field] = _value(found, given)
        except SettingsError as error:
            complaints.append(str(error))
    if place is not None:
        try:
            values[place] = _bus(table, place)
        except SettingsError as error:
            complaints.append(str(error))
    if complaints:
        raise SettingsError.of(complaints)
    return kind(**values)


def _bus(table: Mapping[str, object], field: str) -> BusPlace:
    given = table.get(field)
    if isinstance(given, BusPlace):
        return given
    if isinstance(given, Mapping):
        return BusPlace.from_table(given)
    return BusPlace.from_table({key: table[key] for key in PLACE_KEYS if key in table})


def _value(found: Setting, given: object) -> object:
    read = _READERS[found.form]
    value = read(found.key, given)
    if found.choices:
        for word in value if isinstance(value, tuple) else (value,):
            if word not in found.choices:
                raise SettingsError(f"{found.key}: '{word}' is none of {', '.join(found.choices)}.")
    if found.least is not None and isinstance(value, int | float) and value < found.least:
        raise SettingsError(f"{found.key}: {given} is too small; write {found.least:g} or more.")
    return value


def _text(key: str, given: object) -> str:
    if not isinstance(given, str) or not given:
        raise SettingsError(f"{key}: {given!r} is no text.")
    return given


def _texts(key: str, given: object) -> tuple[str, ...]:
    if isinstance(given, str):
        return tuple(part.strip() for part in given.split(",") if part.strip())
    if isinstance(given, list | tuple):
        return tuple(_text(key, part) for part in given)
    raise SettingsError(f"{key}: {given!r} is no list of texts.")


def _number(key: str, given: object) -> int:
    if isinstance(given, str) and re.fullmatch(r"-?\d+", given):
        return int(given)
    if not isinstance(given, int) or isinstance(given, bool):
        raise SettingsError(f"{key}: {given!r} is no whole number.")
    return given


def _real(key: str, given: object) -> float:
    try:
        if not isinstance(given, bool) and isinstance(given, str | int | float):
            return float(given)
    except ValueError:
        pass
    raise SettingsError(f"{key}: {given!r} is no number.")


def _switch(key: str, given: object) -> bool:
    if isinstance(given, str):
        given = _SWITCHES.get(given.lower(), given)
    if not isinstance(given, bool):
        raise SettingsError(f"{key}: {given!r} is neither true nor false.")
    return given


def _duration(key: str, given: object) -> int:
    if not isinstance(given, str) or not _SPAN.fullmatch(given):
        raise SettingsError(f"{key}: {given!r} is no duration; write for example 30s, 5m or 1h30m.")
    return round(sum(float(number) * _UNIT_MS[unit] for number, unit in _PART.findall(given)))


def _size(key: str, given: object) -> int:
    match = _SIZE.fullmatch(str(given).strip().lower())
    if match is None or isinstance(given, bool) or not int(match[1]):
        raise SettingsError(f"{key}: {given!r} is no size; write for example 64MiB or 500k.")
    return int(match[1]) * _STEPS[match[2]]


def _moment(key: str, given: object) -> int:
    if isinstance(given, str):
        try:
            given = datetime.datetime.fromisoformat(given)
        except ValueError:
            raise SettingsError(
                f"{key}: '{given}' is no time; write for example 2026-01-31T12:00:00Z."
            ) from None
    if not isinstance(given, datetime.datetime):
        raise SettingsError(f"{key}: {given!r} is no time; write for example 2026-01-31T12:00:00Z.")
    if given.tzinfo is None:
        given = given.replace(tzinfo=datetime.UTC)
    return round(given.timestamp() * 1000)


_READERS: Final = {
    "text": _text,
    "texts": _texts,
    "number": _number,
    "real": _real,
    "switch": _switch,
    "duration": _duration,
    "size": _size,
    "moment": _moment,
}
