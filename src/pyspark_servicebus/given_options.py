"""Options as given, read one by one, with the errors about them.

Owns the kinds of values (words, switches, numbers, durations, sizes) and the one error that reports
everything that is wrong at once. `options` says which options there are and which may be combined.
"""

import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

from partibus.domain.errors import ArgumentError
from partibus.domain.quantities import duration_ms, moment_ms, size_bytes
from pyspark_servicebus.errors import ServiceBusError

MEBIBYTE: Final = 1024 * 1024
_Default = TypeVar("_Default", int, None)


class OptionsError(ServiceBusError, ValueError):
    """Options that cannot be used; the text has a line for each of the `complaints`."""

    def __init__(self, text: str, complaints: Iterable[str] = ()) -> None:
        self.complaints = tuple(complaints) or (text,)
        words = "\n  ".join((text, *complaints))
        super().__init__("SERVICEBUS_OPTIONS_INVALID", words, complaints="\n".join(self.complaints))


class OptionError(OptionsError):
    """One option that cannot be used."""

    def __init__(self, option: str, reason: str) -> None:
        super().__init__(f"{option}: {reason}")
        self.option = option
        self.reason = reason


class GivenOptions:
    """Options by name in any case, with the errors about them."""

    def __init__(self, options: Mapping[str, str], known: tuple[str, ...]) -> None:
        self._values = {name.lower(): value for name, value in options.items()}
        self.complaints: list[str] = []
        names = {name.lower(): name for name in known}
        for name in self._values:
            # Spark adds the path of load() and save() under this name.
            if name not in names and name != "path":
                close = _nearest(name, list(names.values()))
                self.complaints.append(f"{name}: unknown option; did you mean {close}?")

    def text(self, name: str, default: str | None = None) -> str | None:
        value = self._values.get(name.lower())
        return default if value is None or value == "" else value

    def one_of(self, name: str, allowed: tuple[str, ...], default: str) -> str:
        value = self.text(name, default) or default
        found = {word.lower(): word for word in allowed}.get(value.lower())
        if found is None:
            self.complaints.append(f"{name}: '{value}' is not one of {', '.join(allowed)}.")
            return default
        return found

    def switch(self, name: str, default: bool) -> bool:
        return self.one_of(name, ("true", "false"), str(default).lower()) == "true"

    def number(self, name: str, default: int | None, least: int = 1) -> int | None:
        value = self.text(name)
        if value is None:
            return default
        if not value.isdecimal() or int(value) < least:
            self.complaints.append(f"{name}: '{value}' is not a whole number of at least {least}.")
            return default
        return int(value)

    def duration_ms(self, name: str, default: int) -> int:
        return self._quantity(name, default, _milliseconds)

    def size(self, name: str, default: int) -> int:
        size = self._quantity(name, default, size_bytes)
        text = f"{name}: '{self.text(name)}' is not a valid size; it must be above 0."
        self.complain(not size, text)
        return size or default

    def moment_ms(self, name: str) -> int | None:
        return self._quantity(name, None, moment_ms)

    def _quantity(self, name: str, default: _Default, read: Callable[[str], int]) -> int | _Default:
        value = self.text(name)
        try:
            return default if value is None else read(value)
        except ArgumentError as error:
            self.complaints.append(f"{name}: {error.text}")
            return default

    def names(self, name: str) -> tuple[str, ...]:
        value = self.text(name) or ""
        return tuple(part.strip() for part in value.split(",") if part.strip())

    def complain(self, condition: bool, text: str) -> None:
        if condition:
            self.complaints.append(text)

    def finish(self) -> None:
        if self.complaints:
            raise OptionsError("the options cannot be used:", self.complaints)


def _milliseconds(text: str) -> int:
    """A bare number is in milliseconds."""
    return int(text) if text.isdecimal() else duration_ms(text.strip().lower())


def _nearest(name: str, known: list[str]) -> str:
    lowered = {word.lower(): word for word in known}
    close = difflib.get_close_matches(name, list(lowered), 1, 0.0)
    return lowered[close[0]]
