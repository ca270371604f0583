"""Tables and times in plain text and JSON, as the reports of pipelines show them.

Owns columns that line up, times in UTC, and texts cut to a width. Pure.
"""

import datetime
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any


def text_table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()
) -> str:
    """Columns that line up; those in `right` to the right."""
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    lines = []
    for row in (heads, *rows):
        cells = [
            cell.rjust(width) if index in right else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def moment(time: datetime.datetime) -> str:
    """A time for people, in UTC."""
    return time.strftime("%Y-%m-%d %H:%M:%S")


def short(text: str, characters_max: int) -> str:
    return text if len(text) <= characters_max else text[: characters_max - 1] + "\u2026"


def report_json(report: Any) -> str:
    """A report, which is a dataclass, for programs."""
    return json.dumps(asdict(report), default=_plain_json, indent=2, ensure_ascii=False)


def _plain_json(value: object) -> object:
    """What JSON has no form for; a time becomes text."""
    if isinstance(value, datetime.datetime):
        return value.astimezone(datetime.UTC).isoformat().replace("+00:00", "Z")
    raise TypeError(type(value).__name__)
