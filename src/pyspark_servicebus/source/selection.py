"""Which messages of an entity are read: the selection made on the bus.

Owns the form of that selection in a ticket of the bulk path. It comes from the options `filter` and
`sessionIds`, and from conditions of a query that are pushed down. Pure.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

TIME_MS_MAX: Final = 1 << 53


@dataclass(frozen=True, slots=True)
class Selection:
    """A selection; None, empty or maximal fields select everything."""

    filter: str = ""
    """In the language of subscription rules."""
    session_ids: tuple[str, ...] | None = None
    message_ids: tuple[str, ...] | None = None
    enqueued_from_ms: int = 0
    enqueued_to_ms: int = TIME_MS_MAX
    """Not included."""

    @property
    def is_everything(self) -> bool:
        """Whether everything is selected."""
        return self == Selection()

    @property
    def is_nothing(self) -> bool:
        """Whether no message can match."""
        empty = self.session_ids == () or self.message_ids == ()
        return empty or self.enqueued_from_ms >= self.enqueued_to_ms

    def ticket(self) -> dict[str, Any]:
        """Its fields in a ticket."""
        if self.is_everything:
            return {}
        choice: dict[str, Any] = {
            "filter": self.filter,
            "enqueued_from_ms": self.enqueued_from_ms,
            "enqueued_to_ms": self.enqueued_to_ms,
        }
        if self.session_ids is not None:
            choice["session_ids"] = list(self.session_ids)
        if self.message_ids is not None:
            choice["message_ids"] = list(self.message_ids)
        return {"choice": choice}

    def with_sessions(self, names: Iterable[str]) -> "Selection":
        """Only these sessions, of those selected before."""
        return replace(self, session_ids=_both(self.session_ids, names))

    def with_messages(self, ids: Iterable[str]) -> "Selection":
        """Only messages with these ids."""
        return replace(self, message_ids=_both(self.message_ids, ids))

    def within(self, from_ms: int = 0, to_ms: int = TIME_MS_MAX) -> "Selection":
        """Only what was enqueued in a time range."""
        return replace(
            self,
            enqueued_from_ms=max(self.enqueued_from_ms, from_ms),
            enqueued_to_ms=min(self.enqueued_to_ms, max(0, to_ms)),
        )


def _both(known: tuple[str, ...] | None, wanted: Iterable[str]) -> tuple[str, ...]:
    names = set(wanted) if known is None else set(wanted) & set(known)
    return tuple(sorted(names))
