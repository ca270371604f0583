"""JSON with comments: removing the comments, and the line of every value.

The vendor's sample files carry `//` comments (EMU-10). They are replaced by blanks, so that every
line and column of the rest stays where it was; the content of strings is never touched. Called by
the reader of the emulator's configuration.
"""

import json
import re
from typing import Final

from partibus.domain.toml_lines import Where

_STRING: Final = r'"(?:[^"\\\n]|\\.)*"'
_COMMENT_OR_STRING: Final = re.compile(rf"{_STRING}|//[^\n]*|/\*.*?\*/", re.DOTALL)
_NOT_NEWLINE: Final = re.compile(r"[^\n]")
_TOKEN: Final = re.compile(rf"{_STRING}|[{{}}\[\],:\n]|[^\s\"{{}}\[\],:]+")


def strip_comments(text: str) -> str:
    """The text with comments blanked out; an unclosed one is left for the parser to refuse."""
    return _COMMENT_OR_STRING.sub(_blank_comment, text)


def _blank_comment(match: re.Match[str]) -> str:
    found = match[0]
    return found if found.startswith('"') else _NOT_NEWLINE.sub(" ", found)


def json_lines(text: str) -> dict[Where, int]:
    """The line of every value by its path, counted from 1; of two equal keys the later counts."""
    lines: dict[Where, int] = {}
    path: list[str | int] = []
    is_key_next = False
    line = 1
    for match in _TOKEN.finditer(strip_comments(text)):
        piece = match[0]
        if piece == "\n":
            line += 1
        elif piece == ",":
            if path and isinstance(path[-1], int):
                path[-1] += 1
            else:
                is_key_next = True
        elif piece in ("}", "]"):
            del path[-1:]
            is_key_next = False
        elif piece[0] == '"' and is_key_next:
            path[-1:] = [json.loads(piece)]
            lines[tuple(path)] = line
            is_key_next = False
        elif piece != ":":
            lines.setdefault(tuple(path), line)
            if piece == "{":
                path.append("")
                is_key_next = True
            elif piece == "[":
                path.append(0)
    return lines
