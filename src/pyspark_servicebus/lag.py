"""How far a streaming query is behind, read from its progress report.

Owns the meaning of this source's offsets in `StreamingQueryProgress`: Spark knows no metrics of a
Python source, but it reports where a query is and where the source's end is. For listeners and
dashboards; asks the bus nothing.
"""

import json
from collections.abc import Mapping
from typing import Any

Fields = Mapping[str, Any]


def messages_behind(source: Fields) -> dict[int, int] | None:
    """Messages that wait, by fragment, of one of the `sources` of a progress report.

    None when the report does not tell. A stream behind a cursor counts numbers, a few of which may
    be messages that are gone; one that claims is told by the bus what waits. A fragment that did
    not answer is left out."""
    latest, end = _offset(source.get("latestOffset")), _offset(source.get("endOffset"))
    if latest is None:
        return None
    ends = {int(index): int(number) for index, number in latest["f"].items()}
    if "c" in latest:
        return ends
    reached = {} if end is None else {int(index): int(number) for index, number in end["f"].items()}
    return {index: max(0, last - max(1, reached.get(index, 1))) for index, last in ends.items()}


def _offset(told: object) -> dict[str, Any] | None:
    """An offset as Spark shows it: text in some reports, an object in others."""
    if isinstance(told, str):
        try:
            told = json.loads(told)
        except ValueError:
            return None
    return told if isinstance(told, dict) and isinstance(told.get("f"), dict) else None
