"""How far a streaming query is behind, read from its progress report.

Owns the meaning of this source's offsets in `StreamingQueryProgress`: Spark has no metrics of a
Python source, but it reports the position of a query and the end of the source. For listeners and
dashboards; must never call the bus.
"""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark_servicebus.source.offsets import SourceOffset

Fields = Mapping[str, Any]


def messages_behind(source: Fields) -> dict[int, int] | None:
    """Waiting messages by fragment, from one of the `sources` of a progress report.

    None when the report does not have it. A stream with a cursor counts numbers, a few of which may
    be messages that are gone; for one with claims the bus reports the waiting messages. A fragment
    that did not answer is left out.
    """
    latest, end = reported_offset(source.get("latestOffset")), source.get("endOffset")
    if latest is None or latest.waiting is not None:
        return None if latest is None else latest.waiting
    if latest.positions is None:
        return None
    reached = reported_offset(end)
    before = (reached.positions if reached is not None else None) or {}
    return {i: max(0, last - max(1, before.get(i, 1))) for i, last in latest.positions.items()}


def reported_offset(reported: object) -> "SourceOffset | None":
    """An offset as Spark shows it: text in some reports, an object in others, `None` as text."""
    from pyspark_servicebus.source.offsets import SourceOffset

    try:
        written = json.loads(reported) if isinstance(reported, str) else reported
        return SourceOffset.from_json(written) if isinstance(written, dict) else None
    except ValueError:
        return None
