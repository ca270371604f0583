"""The line of each key of a TOML document.

`tomllib` reports lines only for syntax errors, so errors about values need this scan. It runs over
text that has been parsed without error, and so it need not be a parser: headers and keys are
recognised, values are skipped. Keys inside inline tables are not listed; they have the line of the
table's key. Used wherever a file that people write is checked.
"""

import re
import tomllib
from collections.abc import Iterator
from typing import Any, Final

Where = tuple[str | int, ...]
"""The keys and indexes from the top of the document."""

_KEY: Final = r"(?:[A-Za-z0-9_-]+|\"(?:[^\"\\\n]|\\.)*\"|'[^'\n]*')"
_DOTTED: Final = rf"{_KEY}(?:[ \t]*\.[ \t]*{_KEY})*"
_BLANK: Final = re.compile(r"(?:[ \t\r\n]|#[^\n]*)+")
_HEADER: Final = re.compile(rf"(\[\[?)[ \t]*({_DOTTED})[ \t]*\]\]?")
_ASSIGNMENT: Final = re.compile(rf"({_DOTTED})[ \t]*=")
_KEY_PATTERN: Final = re.compile(_KEY)
_VALUE_TOKEN: Final = re.compile(
    r'"""(?:[^\\]|\\.)*?"""(?:"{0,2})'
    r"|'''.*?'''(?:'{0,2})"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'"
    r"|#[^\n]*|[\[{]|[\]}]|\n|[^\"'#\[\]{}\n]+",
    re.DOTALL,
)


def toml_lines(text: str) -> dict[Where, int]:
    """Path of every table, array entry and key to its line, counted from 1."""
    lines: dict[Where, int] = {}
    counts: dict[Where, int] = {}
    table: Where = ()
    offset = 0
    while offset < len(text):
        if match := _BLANK.match(text, offset):
            offset = match.end()
            continue
        line = text.count("\n", 0, offset) + 1
        if match := _HEADER.match(text, offset):
            table = _enter(match[2], counts, is_entry=match[1] == "[[")
            for length in range(1, len(table) + 1):
                lines.setdefault(table[:length], line)
            offset = match.end()
        elif match := _ASSIGNMENT.match(text, offset):
            for length in range(1, len(keys := _keys(match[1])) + 1):
                lines.setdefault(table + keys[:length], line)
            offset = _after_value(text, match.end())
        else:  # not TOML after all: return what was found so far
            return lines
    return lines


class TomlLines:
    """The lines of one valid document."""

    def __init__(self, text: str) -> None:
        self._lines = toml_lines(text)
        self._paths = list(_paths(tomllib.loads(text)))

    def line(self, *path: str | int) -> int | None:
        """The line of a key, or of the nearest enclosing item."""
        while path and path not in self._lines:
            path = path[:-1]
        return self._lines.get(path)

    def exact(self, *path: str | int) -> int | None:
        """The line of a key; None when it is not in the document."""
        return self.line(*path) if path in self._paths else None

    def within(self, table: Where, key: str) -> int | None:
        """The line of a key anywhere in a table, or else the line of the table."""
        for path in self._paths:
            if path[: len(table)] == table and path[-1] == key and len(path) > len(table):
                return self.line(*path)
        return self.line(*table)


def _paths(value: Any, path: Where = ()) -> Iterator[Where]:
    if path:
        yield path
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _paths(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _paths(item, (*path, index))


def _enter(header: str, counts: dict[Where, int], *, is_entry: bool) -> Where:
    """The path of a header, with the index of the newest entry after each array of tables."""
    where: Where = ()
    *parents, last = _keys(header)
    for key in parents:
        where = (*where, key)
        if where in counts:
            where = (*where, counts[where] - 1)
    where = (*where, last)
    if is_entry:
        counts[where] = counts.get(where, 0) + 1
    return (*where, counts[where] - 1) if where in counts else where


def _keys(dotted: str) -> tuple[str, ...]:
    keys = _KEY_PATTERN.findall(dotted)
    return tuple(key[1:-1] if key[0] in "\"'" else key for key in keys)


def _after_value(text: str, offset: int) -> int:
    """The offset after a value that begins at `offset`, at the end of its line."""
    depth = 0
    while match := _VALUE_TOKEN.match(text, offset):
        offset = match.end()
        piece = match[0]
        if piece in "[{":
            depth += 1
        elif piece in "]}":
            depth -= 1
        elif piece == "\n" and depth == 0:
            break
    return offset
