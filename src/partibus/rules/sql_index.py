"""SQL filters of a topic, evaluated as rarely as possible.

A filter whose first term compares a property with a text (`store = 'S1' AND ...`) is false for
every other text, before the rest is evaluated; such filters are found by hash and only then
evaluated. All others are evaluated one by one. What fails and what matches is exactly what
evaluating every filter would have found. Called by `rules.ruleset`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from partibus.rules.errors import EvaluationError
from partibus.rules.sql_filter import SqlFilter
from partibus.rules.view import ABSENT, MessageView

Item = TypeVar("Item")
Finding = tuple[Item, str]
"""An item whose filter could not be evaluated, and why."""
Entry = tuple[SqlFilter, list[Item]]


@dataclass(eq=False, slots=True)
class _Guarded(Generic[Item]):
    """Filters that begin with a comparison of one property."""

    is_system: bool
    name: str
    _all: list[Entry[Item]] = field(init=False, default_factory=list)
    _open: list[Entry[Item]] = field(init=False, default_factory=list)
    _by_text: dict[str, list[Entry[Item]]] = field(init=False, default_factory=dict)

    def add(self, entry: Entry[Item]) -> None:
        guard = entry[0].guard
        assert guard is not None
        self._all.append(entry)
        if not guard.is_whole:
            self._open.append(entry)
        for text in guard.texts:
            self._by_text.setdefault(text, []).append(entry)

    def candidates(self, view: MessageView) -> Iterable[Entry[Item]]:
        """The filters that may be true for the message, or fail."""
        value = view.system(self.name) if self.is_system else view.user(self.name)
        if type(value) is str:
            return self._by_text.get(value, ())
        # Unknown AND x is never true, but x may fail; of another type, the first term fails.
        return self._open if value is None or value is ABSENT else self._all


class SqlIndex(Generic[Item]):
    """Items by SQL filter."""

    __slots__ = ("_count", "_guarded", "_plain")

    def __init__(self, entries: Iterable[Entry[Item]]) -> None:
        self._plain: list[Entry[Item]] = []
        guarded: dict[tuple[bool, str], _Guarded[Item]] = {}
        self._count = 0
        for entry in entries:
            self._count += 1
            guard = entry[0].guard
            if guard is None:
                self._plain.append(entry)
                continue
            key = (guard.is_system, guard.name)
            if key not in guarded:
                guarded[key] = _Guarded(*key)
            guarded[key].add(entry)
        self._guarded = list(guarded.values())

    def __len__(self) -> int:
        return self._count

    def find(self, view: MessageView, found: list[Item], errors: list[Finding[Item]]) -> None:
        """Add the items of the filters that are true, and those of the filters that fail."""
        if not self._count:
            return
        self._evaluate(self._plain, view, found, errors)
        for guarded in self._guarded:
            self._evaluate(guarded.candidates(view), view, found, errors)

    def _evaluate(
        self,
        entries: Iterable[Entry[Item]],
        view: MessageView,
        found: list[Item],
        errors: list[Finding[Item]],
    ) -> None:
        for sql, items in entries:
            try:
                if sql.matches(view):
                    found += items
            except EvaluationError as error:
                errors += [(item, error.reason) for item in items]
