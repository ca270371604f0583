"""Correlation filters by hash: the cost depends on the matches, not on the number of filters
(COR-3).

Filters that name the same set of fields form a group, and a group is one dictionary from the values
of those fields to the registered items. Which groups a message can match at all is found by one
field of each group, the one that the fewest groups share. Values are equal when their types are too
(COR-2). Called by `rules.ruleset` and `rules.explain`.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from partibus.domain.entity import CorrelationFilter
from partibus.rules.time_values import operand
from partibus.rules.view import MessageView

Item = TypeVar("Item")
Field = tuple[bool, str]
"""(whether it is a system property, its canonical or lower-case name)."""

_SYSTEM: Final = tuple(
    (field, field.replace("_", ""))
    for field in CorrelationFilter.__dataclass_fields__
    if field != "properties"
)


def conditions(filter_: CorrelationFilter) -> dict[Field, object]:
    """The required value of each field (COR-1)."""
    asked: dict[Field, object] = {}
    for attribute, name in _SYSTEM:
        value = getattr(filter_, attribute)
        if value is not None:
            asked[True, name] = value
    for name, value in filter_.properties.items():
        asked[False, name.lower()] = operand(value)
    return asked


def hashed(value: object) -> object:
    """A key that is equal for equal values of one type: 1, 1.0 and True are different."""
    return value if type(value) is str else (type(value), value)


@dataclass(eq=False, slots=True)
class _Group(Generic[Item]):
    """Filters over one set of fields."""

    fields: tuple[Field, ...]
    _items: dict[object, list[Item]] = field(init=False, default_factory=dict)

    def add(self, asked: dict[Field, object], item: Item) -> None:
        key = tuple(hashed(asked[field]) for field in self.fields)
        self._items.setdefault(key, []).append(item)

    def find(self, view: MessageView) -> Sequence[Item]:
        key = []
        for is_system, name in self.fields:  # `hashed`, without a call for each field
            value = view.system(name) if is_system else view.user(name)
            key.append(value if type(value) is str else (type(value), value))
        try:
            return self._items.get(tuple(key), ())
        except TypeError:  # a list or a map in a property equals nothing
            return ()


class CorrelationIndex(Generic[Item]):
    """Items by correlation filter."""

    __slots__ = ("_by_system", "_by_user", "_count")

    def __init__(self, filters: Iterable[tuple[CorrelationFilter, Item]]) -> None:
        groups: dict[frozenset[Field], _Group[Item]] = {}
        self._count = 0
        for filter_, item in filters:
            self._count += 1
            asked = conditions(filter_)
            group = groups.setdefault(frozenset(asked), _Group(tuple(sorted(asked))))
            group.add(asked, item)
        self._by_system: dict[str, list[_Group[Item]]] = {}
        self._by_user: dict[str, list[_Group[Item]]] = {}
        shared = Counter(field for fields in groups for field in fields)
        for group in groups.values():
            is_system, name = min(group.fields, key=lambda field: (shared[field], field))
            by_name = self._by_system if is_system else self._by_user
            by_name.setdefault(name, []).append(group)

    def __len__(self) -> int:
        return self._count

    def find(self, view: MessageView) -> list[Item]:
        """The items of every filter that the message matches."""
        found: list[Item] = []
        for name, groups in self._by_system.items():
            if view.system(name) is not None:
                for group in groups:
                    found += group.find(view)
        by_user = self._by_user
        if by_user:
            names = view.names()
            # The names of the smaller side are looked up in the other.
            shared: Collection[str] = names if len(names) < len(by_user) else by_user
            for name in shared:
                if name in by_user and name in names:
                    for group in by_user[name]:
                        found += group.find(view)
        return found
