"""Which fragments of this process have changed since a reader looked last.

Owns the comparison of the fragments' change numbers, so that a reader of thousands of fragments
reads the few that have changed. It must never read anything else of a fragment, and messages know
nothing of it. Each reader of counters has its own: signals, events and the live picture.
"""

from collections.abc import Mapping
from itertools import compress
from operator import attrgetter, ne
from typing import Final

from partibus.fragment.machine import Machine

_CHANGES: Final = attrgetter("changes")


class ChangedFragments:
    """The fragments as one reader last saw them."""

    def __init__(self, machines: Mapping[int, Machine]) -> None:
        self._machines = machines
        self._numbers: list[int] = []
        self._changes: list[int] = []

    def take(self) -> tuple[list[int], set[int]]:
        """The fragments that are new or have changed since the last call, and those that left."""
        numbers, changes = list(self._machines), list(map(_CHANGES, self._machines.values()))
        known, before = self._numbers, self._changes
        self._numbers, self._changes = numbers, changes
        if numbers == known:  # nearly always
            return list(compress(numbers, map(ne, changes, before))), set()
        then = dict(zip(known, before, strict=True))
        now = zip(numbers, changes, strict=True)
        changed = [number for number, change in now if then.get(number) != change]
        return changed, {*known} - {*numbers}
