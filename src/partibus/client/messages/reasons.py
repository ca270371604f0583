"""Dead letters counted by why they were dead-lettered.

Owns the rows of such a count, with the oldest and the newest of each reason; must never fetch a
message. Used by `dlq list` and by the console.
"""

from typing import Any

from partibus.client.message import IncomingMessage
from partibus.domain.annotations import DEAD_LETTER_DESCRIPTION, DEAD_LETTER_REASON
from partibus.domain.quantities import format_moment


class Reasons:
    """A row for each reason."""

    def __init__(self) -> None:
        self._rows: dict[str, dict[str, Any]] = {}

    def add(self, message: IncomingMessage) -> None:
        reason, when = reason_of(message), format_moment(message.enqueued_ms) or ""
        description = message.application_properties.get(DEAD_LETTER_DESCRIPTION)
        new = {"count": 0, "oldest": when, "newest": when, "description": description}
        row = self._rows.setdefault(reason, {"reason": reason, **new})
        row["count"] += 1
        row["oldest"], row["newest"] = min(row["oldest"], when), max(row["newest"], when)

    def rows(self) -> list[dict[str, Any]]:
        """The most frequent reason first."""
        return sorted(self._rows.values(), key=lambda row: -row["count"])


def reason_of(message: IncomingMessage) -> str:
    """Why a message was dead-lettered."""
    return str(message.application_properties.get(DEAD_LETTER_REASON) or "(none)")
