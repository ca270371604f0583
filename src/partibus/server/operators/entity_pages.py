"""Which entities a page of the console contains: filter, state, order, position.

Owns how the parameters are read and what they mean; the administration provides the counts. Only
the entities of the page are counted in full; an order by a count needs only that count of the
others, so that ten thousand entities are listed quickly.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from partibus.control.catalog.record import EntityRecord
from partibus.domain.errors import ArgumentError

TOP_MAX: Final = 500
TOP_DEFAULT: Final = 50
ORDERS: Final = ("name", "active", "dead_letter", "scheduled", "deferred", "locked", "bytes")
STATES: Final = ("available", "limited", "unavailable", "dead-letters", "waiting", "empty")


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityPageRequest:
    """What a page should contain."""

    filter: str = ""
    kind: str = ""
    state: str = ""
    sort: str = "name"
    skip: int = 0
    top: int = TOP_DEFAULT

    @classmethod
    def of(cls, query: Mapping[str, str]) -> "EntityPageRequest":
        """From the parameters of a request; an unknown one is an error."""
        unknown = set(query) - {"filter", "kind", "state", "sort", "skip", "top"}
        if unknown:
            raise ArgumentError(f"'{min(unknown)}' is not a parameter of a list of entities.")
        state, order = query.get("state", ""), query.get("sort", "name")
        if state and state not in STATES:
            raise ArgumentError(f"'{state}' is not a state; allowed: {', '.join(STATES)}.")
        if order not in ORDERS:
            raise ArgumentError(f"'{order}' is not an order; allowed: {', '.join(ORDERS)}.")
        return cls(
            filter=query.get("filter", "").lower(),
            kind=query.get("kind", ""),
            state=state,
            sort=order,
            skip=_count(query.get("skip", "0"), "skip", 10_000_000),
            top=_count(query.get("top", str(TOP_DEFAULT)), "top", TOP_MAX),
        )

    @property
    def counted(self) -> tuple[str, ...]:
        """The counts that decide which entities are on the page; none when the order is by name."""
        if self.state in _COUNTED:
            return _COUNTED[self.state]
        return () if self.sort == "name" else (self.sort,)

    @property
    def needs_stores(self) -> bool:
        """Whether it matters which stores are down."""
        return self.state in ("available", "limited", "unavailable")

    def named(self, records: Sequence[EntityRecord]) -> Sequence[EntityRecord]:
        """The entities that may be on the page, by their catalog entries."""
        kind, text = self.kind.lower(), self.filter
        if kind:
            records = [record for record in records if record.kind.value.lower() == kind]
        return [r for r in records if text in r.path.lower()] if text else records

    def accepted(
        self, records: Sequence[EntityRecord], ranks: Mapping[int, int], down: frozenset[int]
    ) -> Sequence[EntityRecord]:
        """The entities that are in the wanted state."""
        if self.state in _COUNTED:
            wants_some = self.state != "empty"
            return [record for record in records if _has_some(record, ranks) is wants_some]
        return [r for r in records if _state(r, down) == self.state] if self.state else records

    def ordered(
        self, records: Sequence[EntityRecord], ranks: Mapping[int, int]
    ) -> list[EntityRecord]:
        """By name, or by a count with the largest first."""
        by_name = sorted(records, key=lambda record: record.path.lower())
        if self.sort == "name":
            return by_name
        return sorted(by_name, key=lambda record: -_rank(record, ranks))


_COUNTED: Final = {
    "dead-letters": ("dead_letter",),
    "waiting": ("active", "scheduled", "deferred"),
    "empty": ("active", "scheduled", "deferred", "dead_letter"),
}


def _has_some(record: EntityRecord, ranks: Mapping[int, int]) -> bool:
    return any(placement.fragment_id in ranks for placement in record.fragments)


def _state(record: EntityRecord, down: frozenset[int]) -> str:
    lost = sum(placement.store in down for placement in record.fragments)
    if lost == len(record.fragments):
        return "unavailable"
    return "limited" if lost else "available"


def _rank(record: EntityRecord, ranks: Mapping[int, int]) -> int:
    return sum(ranks.get(placement.fragment_id, 0) for placement in record.fragments)


def _count(text: str, what: str, most: int) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 9 or int(text) > most:
        raise ArgumentError(f"'{what}' must be a number up to {most}.")
    return int(text)
