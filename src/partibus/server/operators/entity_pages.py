"""Which entities a page of the console holds: filter, state, order, place.

Owns how the parameters are read and what they mean; the counts are the administration's. A filter
by name alone needs no counts but those of the page, so that ten thousand entities cost no more
than fifty.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from partibus.control.record import EntityRecord
from partibus.domain.errors import ArgumentError

TOP_MAX: Final = 500
TOP_DEFAULT: Final = 50
ORDERS: Final = ("name", "active", "dead_letter", "scheduled", "deferred", "locked", "bytes")
STATES: Final = ("available", "limited", "unavailable", "dead-letters", "waiting", "empty")


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityWish:
    """What a page is to hold."""

    filter: str = ""
    kind: str = ""
    state: str = ""
    sort: str = "name"
    skip: int = 0
    top: int = TOP_DEFAULT

    @classmethod
    def of(cls, query: Mapping[str, str]) -> "EntityWish":
        """Out of the parameters of a request; an unknown one is an error."""
        unknown = set(query) - {"filter", "kind", "state", "sort", "skip", "top"}
        if unknown:
            raise ArgumentError(f"'{min(unknown)}' is not a parameter of a list of entities.")
        state, order = query.get("state", ""), query.get("sort", "name")
        if state and state not in STATES:
            raise ArgumentError(f"'{state}' is not a state; allowed are {', '.join(STATES)}.")
        if order not in ORDERS:
            raise ArgumentError(f"'{order}' is not an order; allowed are {', '.join(ORDERS)}.")
        return cls(
            filter=query.get("filter", "").lower(),
            kind=query.get("kind", ""),
            state=state,
            sort=order,
            skip=_count(query.get("skip", "0"), "skip", 10_000_000),
            top=_count(query.get("top", str(TOP_DEFAULT)), "top", TOP_MAX),
        )

    @property
    def needs_counts(self) -> bool:
        """Whether all entities must be counted to know which are on the page."""
        return bool(self.state) or self.sort != "name"

    def names(self, record: EntityRecord) -> bool:
        """Whether an entity may be on the page, by what the catalog knows."""
        if self.kind and record.kind.value.lower() != self.kind.lower():
            return False
        return self.filter in record.path.lower()

    def accepts(self, row: dict[str, Any]) -> bool:
        """Whether an entity is in the wanted state."""
        totals = row["totals"]
        waiting = totals["active"] + totals["scheduled"] + totals["deferred"]
        by_count = {
            "": True,
            "dead-letters": totals["dead_letter"] > 0,
            "waiting": waiting > 0,
            "empty": waiting + totals["dead_letter"] == 0,
        }
        return bool(by_count.get(self.state, row["availability"].lower() == self.state))

    def ordered(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """By name, or by a count with the largest first."""
        if self.sort == "name":
            return sorted(rows, key=lambda row: str(row["name"]).lower())
        return sorted(rows, key=lambda row: (-row["totals"][self.sort], str(row["name"]).lower()))


def _count(text: str, what: str, most: int) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 9 or int(text) > most:
        raise ArgumentError(f"'{what}' must be a number up to {most}.")
    return int(text)
