"""Conditions of a query that the bus can evaluate itself.

Owns which of Spark's filters are taken and what they mean: fragments, ranges of sequence numbers
and of enqueued times, sessions and ids. Pushed conditions are evaluated exactly, so Spark does not
check them again; everything else is returned. Pure; used by the batch reader with `pushdown=true`.
"""

import datetime
from collections.abc import Iterable, Iterator
from typing import Final

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from partibus.domain.moments import EPOCH
from partibus.domain.sequence import NUMBERS_END, client_sequence
from pyspark_servicebus.source.selection import Selection

_SEQUENCE_MAX: Final = 1 << 63
_MICROSECOND: Final = datetime.timedelta(microseconds=1)
_US_PER_MS: Final = 1000


class Pushed:
    """What is requested from the bus: fragments, numbers in them, and a selection of messages."""

    def __init__(self, selection: Selection) -> None:
        self.selection = selection
        self.fragments: set[int] | None = None
        self._first = 0
        self._last = _SEQUENCE_MAX

    def take(self, filters: Iterable[Filter]) -> Iterator[Filter]:
        """Take what can be pushed; returns the rest."""
        for condition in filters:
            if not self._takes(condition):
                yield condition

    def range_in(self, fragment: int, first: int, last: int) -> tuple[int, int]:
        """The wanted part of a fragment's range; empty when the first is not below the last."""
        base = client_sequence(fragment, 0)
        return max(first, self._first - base), min(last, self._last - base)

    def wants(self, fragment: int) -> bool:
        """Whether any message of a fragment can match."""
        if self.fragments is not None and fragment not in self.fragments:
            return False
        first, last = self.range_in(fragment, 0, NUMBERS_END)
        return first < last

    # --- one condition ----------------------------------------------------------------------

    def _takes(self, condition: Filter) -> bool:
        if isinstance(condition, EqualTo):
            return self._among(condition.attribute, [condition.value])
        if isinstance(condition, In):
            return self._among(condition.attribute, list(condition.value))
        if isinstance(condition, GreaterThan | GreaterThanOrEqual | LessThan | LessThanOrEqual):
            above = isinstance(condition, GreaterThan | GreaterThanOrEqual)
            same = isinstance(condition, GreaterThanOrEqual | LessThanOrEqual)
            return self._between(condition.attribute, condition.value, above=above, same=same)
        return False

    def _among(self, attribute: tuple[str, ...], values: list[object]) -> bool:
        if attribute == ("fragment",) and all(type(value) is int for value in values):
            wanted = {value for value in values if isinstance(value, int)}
            self.fragments = wanted if self.fragments is None else self.fragments & wanted
            return True
        if attribute in (("session_id",), ("message_id",)):
            texts = [value for value in values if isinstance(value, str)]
            if len(texts) != len(values):
                return False
            by_session = attribute == ("session_id",)
            chosen = self.selection
            self.selection = (
                chosen.with_sessions(texts) if by_session else chosen.with_messages(texts)
            )
            return True
        if len(values) == 1:
            (value,) = values
            return self._between(attribute, value, above=True, same=True) and self._between(
                attribute, value, above=False, same=True
            )
        return False

    def _between(
        self, attribute: tuple[str, ...], value: object, *, above: bool, same: bool
    ) -> bool:
        if attribute == ("sequence_number",) and type(value) is int:
            if above:
                self._first = max(self._first, value if same else value + 1)
            else:
                self._last = min(self._last, value + 1 if same else value)
            return True
        if attribute == ("enqueued_time",) and isinstance(value, datetime.datetime):
            if value.tzinfo is None:
                return False  # only Spark knows the zone
            self._between_times((value - EPOCH) // _MICROSECOND, above=above, same=same)
            return True
        return False

    def _between_times(self, bound_us: int, *, above: bool, same: bool) -> None:
        """The column has milliseconds: a bound in microseconds is rounded up to a whole one."""
        # The first microsecond that is included (above), or excluded (below).
        edge_us = bound_us if same == above else bound_us + 1
        edge_ms = -(-edge_us // _US_PER_MS)
        if above:
            self.selection = self.selection.within(from_ms=max(0, edge_ms))
        else:
            self.selection = self.selection.within(to_ms=max(0, edge_ms))
