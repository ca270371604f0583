"""On which line of a TOML file a key stands.

Owns a reading of the text that follows tables, arrays of tables and keys, but no values: what they
are is `tomllib`'s to say. A key that is not found has the line of what it stands in. Pure; used to
tell people where to look.
"""

import re
from typing import Final

Path = tuple[str | int, ...]

_HEADER: Final = re.compile(r"^\s*(\[\[?)\s*(.+?)\s*\]\]?\s*(?:#.*)?$")
_NAME: Final = r"""(?:"[^"]*"|'[^']*'|[A-Za-z0-9_-]+)"""
_KEY: Final = re.compile(rf"^\s*({_NAME}(?:\s*\.\s*{_NAME})*)\s*=")
_PART: Final = re.compile(_NAME)
_INLINE: Final = re.compile(rf"(?:^|[{{,])\s*({_NAME})\s*=")
_STRING: Final = re.compile(r'"""|\'\'\'|"(?:\\.|[^"\\])*"|\'[^\']*\'|#.*')


class TomlLines:
    """The lines of the keys of one text."""

    def __init__(self, text: str) -> None:
        self._lines: dict[Path, int] = {}
        self._tables: dict[Path, int] = {}
        """How many tables an array has."""
        self._read(text.splitlines())

    def exact(self, *path: str | int) -> int | None:
        """The line of a key, if it is there."""
        return self._lines.get(path)

    def line(self, *path: str | int) -> int | None:
        """The line of a key, or of the nearest thing around it."""
        while path:
            if path in self._lines:
                return self._lines[path]
            path = path[:-1]
        return None

    def _read(self, lines: list[str]) -> None:
        table: Path = ()
        open_string, depth = "", 0
        for number, line in enumerate(lines, 1):
            is_inside = bool(open_string) or depth > 0
            if not is_inside and (header := _HEADER.match(line)):
                table = self._table(header[1], header[2])
                for length in range(1, len(table) + 1):
                    self._lines.setdefault(table[:length], number)
                continue
            rest = line
            if not is_inside and (key := _KEY.match(line)):
                path = (*table, *_parts(key[1]))
                for length in range(len(table) + 1, len(path) + 1):
                    self._lines.setdefault(path[:length], number)
                rest = line[key.end() :]
                self._inline(path, rest, number)
            open_string, depth = _state(rest, open_string, depth)

    def _inline(self, path: Path, rest: str, number: int) -> None:
        if rest.lstrip().startswith("{"):
            for key in _INLINE.findall(rest):
                self._lines.setdefault((*path, key.strip("\"'")), number)

    def _table(self, brackets: str, name: str) -> Path:
        path: Path = ()
        parts = _parts(name)
        for number, part in enumerate(parts, 1):
            path = (*path, part)
            is_last = number == len(parts)
            if is_last and brackets == "[[":
                self._tables[path] = self._tables.get(path, 0) + 1
            if path in self._tables:
                path = (*path, self._tables[path] - 1)
        return path


def _parts(name: str) -> list[str]:
    return [part.strip("\"'") for part in _PART.findall(name)]


def _state(text: str, open_string: str, depth: int) -> tuple[str, int]:
    """Whether a string or an array goes on in the next line."""
    while True:
        if open_string:
            _, found, text = text.partition(open_string)
            if not found:
                return open_string, depth
            open_string = ""
            continue
        match = _STRING.search(text)
        before = text if match is None else text[: match.start()]
        depth += before.count("[") + before.count("{") - before.count("]") - before.count("}")
        if match is None:
            return "", max(depth, 0)
        text = text[match.end() :]
        if match[0] in ('"""', "'''"):
            open_string = match[0]
