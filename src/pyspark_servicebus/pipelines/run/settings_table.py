"""Settings from a table: TOML, command-line options or a dict of code, read by the same rules.

Owns the declaration of a setting (`setting`: help, form, default, choices, how it is typed), the
forms of values (durations, sizes, moments, switches) and the errors about them. A key is the name
of a dataclass field without its unit (`window_time` for `window_time_ms`). The verbs of `partibus
pipeline`, the scripts for spark-submit and declared files are all derived from these declarations.
Each pipeline checks which settings may be combined. Neither Spark nor Arrow is imported here.
"""

import dataclasses
import datetime
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, Self, TypeVar

from partibus.domain import quantities
from partibus.domain.errors import ArgumentError
from partibus.domain.moments import timestamp_ms
from pyspark_servicebus.pipelines.run.place import PLACE_KEYS, BusPlace
from pyspark_servicebus.pipelines.run.sections import Places, Sections
from pyspark_servicebus.pipelines.run.settings import SettingsError, nearest

Value = Literal["text", "texts", "number", "real", "switch", "duration", "size", "moment"]
Form = Value | Literal["entity", "path", "bus"]
Settings = TypeVar("Settings")
_UNITS: Final = ("_ms", "_bytes")
_SWITCHES: Final = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Typed:
    """How a setting is written on a command line, beyond its key and form.

    An argument has a position instead of flags; the flags are by default `--` and the key. The help
    shows the metavar for the value, lists the setting under the heading of its panel, and describes
    a default that is too long for it with the text.
    """

    is_argument: bool = False
    flags: tuple[str, ...] = ()
    metavar: str = ""
    panel: str = ""
    default_text: str = ""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting, as used in files and on the command line."""

    key: str
    field: str
    help: str
    form: Form
    default: object
    choices: tuple[str, ...]
    least: float | None
    typed: Typed

    @property
    def is_required(self) -> bool:
        """Whether there is no default."""
        return self.default is dataclasses.MISSING

    @property
    def flag(self) -> str:
        """The default flag for its key; `--no-KEY` turns off a switch that is on by default."""
        words = self.key.replace("_", "-")
        return f"--no-{words}" if self.default is True else f"--{words}"

    @property
    def metavar(self) -> str:
        """The placeholder for the value in the help."""
        return self.typed.metavar or _METAVARS.get(self.form, "TEXT")

    def full_help(self) -> str:
        """The help including the default, if there is one."""
        default = self.default
        if self.is_required or default in (None, "", ()) or isinstance(default, bool):
            return self.help
        return f"{self.help} (default {self.typed.default_text or _written(self.form, default)})"


def setting(
    help_text: str,
    form: Form = "text",
    *,
    default: object = dataclasses.MISSING,
    choices: tuple[str, ...] = (),
    least: float | None = None,
    **typed: Any,
) -> Any:
    """Declare a field of a settings dataclass; `typed` are the fields of `Typed`.

    The form `bus` is for a field of the type BusPlace, read from the keys of that class."""
    hints = Typed(**typed)
    metadata = {
        "help": help_text,
        "form": form,
        "choices": choices,
        "least": least,
        "typed": hints,
    }
    return dataclasses.field(default=default, metadata=metadata)


def entity_globs() -> Any:
    """The setting of the pipelines that look at many entities at once."""
    return setting(
        "Which queues and subscriptions, as globs: 'orders*', 'events/Subscriptions/*'. All if"
        " left out.",
        "texts",
        default=(),
        is_argument=True,
        metavar="[GLOB]...",
    )


def retry_time(default_ms: int, **typed: Any) -> Any:
    """The setting of the pipelines that survive an outage of the bus."""
    text = "How long to wait for a bus that is unreachable."
    return setting(text, "duration", default=default_ms, **typed)


def until_stopped(**typed: Any) -> Any:
    """The setting of the pipelines that can run for ever."""
    text = "Run until stopped; without it, process what is there and end."
    return setting(text, "switch", default=False, **typed)


def settings_of(kind: type[object]) -> Iterator[Setting]:
    """The settings of a dataclass, except the bus, in order."""
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]
        if field.metadata.get("form", "bus") == "bus":
            continue
        key = field.name
        for unit in _UNITS:
            key = key.removesuffix(unit)
        yield Setting(key=key, field=field.name, default=field.default, **field.metadata)


def keys_of(kind: type[object], form: Form) -> list[str]:
    """The keys of the settings that have this form."""
    return [found.key for found in settings_of(kind) if found.form == form]


class Declaration:
    """A settings dataclass that is read from a table."""

    __slots__ = ()
    SECTIONS: ClassVar[tuple[str, ...]] = ()
    """What it reads of a declared file besides the section of its kind."""
    PLACES: ClassVar[Places] = {}

    def in_state_dir(self, directory: Path) -> Self:
        """The same, with everything that it keeps by default in this directory."""
        return self

    @classmethod
    def from_table(cls, table: Mapping[str, object]) -> Self:
        """Settings from a file, from options or from code; SettingsError says what is wrong."""
        return read_table(cls, table)

    @classmethod
    def from_file(cls, table: dict[str, Any], file: Sections) -> Self:
        """Settings from the section of their kind, and from other sections of a declared file."""
        settings = cls.from_table(table)
        return settings if file.state_dir is None else settings.in_state_dir(file.state_dir)


def bus_field(kind: type[object]) -> str | None:
    """The name of the field for the bus."""
    fields = dataclasses.fields(kind)  # type: ignore[arg-type]
    return next((field.name for field in fields if field.metadata.get("form") == "bus"), None)


def read_table(kind: type[Settings], table: Mapping[str, object]) -> Settings:
    """Settings of this kind; SettingsError lists everything that is wrong with the table."""
    known = {found.key: found for found in settings_of(kind)}
    place = bus_field(kind)
    keys = (*known, *(PLACE_KEYS if place else ()), *((place,) if place else ()))
    complaints = [
        f"{name}: unknown setting; did you mean {nearest(name, keys)}?"
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
                raise SettingsError(
                    f"{found.key}: '{word}' is not one of {', '.join(found.choices)}."
                )
    if found.least is not None and isinstance(value, int | float) and value < found.least:
        shown = value if found.form == "real" else given
        raise SettingsError(f"{found.key}: {shown} is too small; write {found.least:g} or more.")
    return value


def _text(key: str, given: object) -> str:
    if not isinstance(given, str) or not given:
        raise SettingsError(f"{key}: expected a string, got {given!r}.")
    return given


def _texts(key: str, given: object) -> tuple[str, ...]:
    if isinstance(given, str):
        return tuple(part.strip() for part in given.split(",") if part.strip())
    if isinstance(given, list | tuple):
        return tuple(_text(key, part) for part in given)
    raise SettingsError(f"{key}: {given!r} is not a list of strings.")


def _number(key: str, given: object) -> int:
    if isinstance(given, str) and re.fullmatch(r"-?\d+", given):
        return int(given)
    if not isinstance(given, int) or isinstance(given, bool):
        raise SettingsError(f"{key}: {given!r} is not a whole number.")
    return given


def _real(key: str, given: object) -> float:
    try:
        if not isinstance(given, bool) and isinstance(given, str | int | float):
            return float(given)
    except ValueError:
        pass
    raise SettingsError(f"{key}: {given!r} is not a number.")


def _switch(key: str, given: object) -> bool:
    if isinstance(given, str):
        given = _SWITCHES.get(given.lower(), given)
    if not isinstance(given, bool):
        raise SettingsError(f"{key}: {given!r} is neither true nor false.")
    return given


def _size(key: str, given: object) -> int:
    if isinstance(given, int) and not isinstance(given, bool):
        given = str(given)
    size = _quantity(quantities.size_bytes, key, given)
    if not size:
        raise SettingsError(f"{key}: {given!r} is too small; write 1 or more.")
    return size


def _moment(key: str, given: object) -> int:
    if isinstance(given, datetime.datetime):
        return timestamp_ms(given)
    return _quantity(quantities.moment_ms, key, given)


def _quantity(read: Callable[[str], int], key: str, given: object) -> int:
    try:
        return read(_text(key, given))
    except ArgumentError as error:
        raise SettingsError(f"{key}: {error.text}") from None


def _written(form: Form, value: Any) -> str:
    """A default as a person would write it."""
    if form == "duration":
        return _in_units(value, quantities.UNIT_MS)
    if form == "size":
        return _in_units(value, _SIZE_UNITS)
    return str(value)


def _in_units(value: int, units: Mapping[str, int]) -> str:
    """The value in the largest unit of which it is a multiple; 90s rather than 1m30s."""
    name, unit = max(
        ((name, unit) for name, unit in units.items() if value % unit == 0), key=lambda u: u[1]
    )
    return f"{value // unit}{name}"


_SIZE_UNITS: Final = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_METAVARS: Final[dict[Form, str]] = {
    "number": "N",
    "real": "N",
    "duration": "TIME",
    "size": "SIZE",
    "moment": "TIME",
    "entity": "ENTITY",
    "path": "PATH",
}
_READERS: Final[dict[Form, Callable[[str, object], object]]] = {
    "text": _text,
    "entity": _text,
    "path": _text,
    "texts": _texts,
    "number": _number,
    "real": _real,
    "switch": _switch,
    "duration": partial(_quantity, quantities.duration_ms),
    "size": _size,
    "moment": _moment,
}
