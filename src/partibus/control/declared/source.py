"""The text of a definitions file, and the position of things in it.

Owns the error message of a bad file: `file:line: path: reason`. Lines are searched only when there
is an error. It knows neither TOML nor JSON: each reader provides the scan that maps paths to lines,
and its spelling of a property's path.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from partibus.domain.errors import ConfigError
from partibus.domain.toml_lines import Where

LineScan = Callable[[str], dict[Where, int]]
Spelling = Callable[[str], Where]


def spell_where(where: Where) -> str:
    """A path as people write it: `queue[1].lock_duration`."""
    text = ""
    for part in where:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text


def _spell_plainly(property_name: str) -> Where:
    return (property_name,)


@dataclass(eq=False, slots=True)
class DefinitionSource:
    """One file's name and text."""

    file: Path
    text: str
    scan: LineScan
    spelling: Spelling = _spell_plainly
    _lines: dict[Where, int] | None = field(init=False, default=None)

    def line_of(self, where: Where) -> int | None:
        """The line of a path, or of the nearest enclosing item that has one."""
        if self._lines is None:
            self._lines = self.scan(self.text)
        for length in range(len(where), 0, -1):
            line = self._lines.get(where[:length])
            if line is not None:
                return line
        return None

    def error(self, where: Where, reason: str) -> ConfigError:
        """The error for the item at `where`."""
        line = self.line_of(where)
        place = f"{self.file}:{line}" if line is not None else f"{self.file}"
        path = f" {spell_where(where)}:" if where else ""
        return ConfigError(f"{place}:{path} {reason}")

    def property_error(self, entity: Where, property_name: str, reason: str) -> ConfigError:
        """The error for a property of the entity at `entity`, in the file's own spelling."""
        return self.error(entity + self.spelling(property_name), reason)


def read_text(file: Path) -> str:
    """The file's text; one that cannot be read is a `ConfigError`."""
    try:
        return file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file} is not UTF-8 text (byte {error.start}).") from error
