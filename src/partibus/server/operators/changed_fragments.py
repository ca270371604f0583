"""Which fragments of this process have changed since a reader looked last.

Owns the reading of the fragments' change numbers, which all readers share, and the comparison with
what each reader saw before: of thousands of fragments only those that have changed are read. It
must never read anything else of a fragment, and messages know nothing of it. Its readers are the
signals, the events and the live picture.
"""

from collections.abc import Callable, Mapping
from itertools import compress
from operator import attrgetter, ne
from typing import Final

from partibus.fragment.machine import Machine

_CHANGES: Final = attrgetter("changes")


class ChangeNumbers:
    """The change numbers of all fragments at the last reading.

    The fragments lie scattered in memory: reading a number of each takes longer than all that
    follows, so those who can wait a little use a reading that another has made.
    """

    def __init__(self, machines: Mapping[int, Machine], now_ms: Callable[[], int]) -> None:
        self._machines = machines
        self._now_ms = now_ms
        self._read_ms: int | None = None
        self._fragments: list[int] = []
        self._numbers: list[int] = []

    def read(self, age_ms_max: int) -> tuple[list[int], list[int]]:
        """Fragments and their numbers, read less than this time ago; 0 means now."""
        now_ms = self._now_ms()
        if self._read_ms is None or now_ms - self._read_ms >= age_ms_max:
            self._fragments = list(self._machines)
            self._numbers = list(map(_CHANGES, self._machines.values()))
            self._read_ms = now_ms
        return self._fragments, self._numbers


class ChangedFragments:
    """The fragments as one reader last saw them."""

    def __init__(self, numbers: ChangeNumbers) -> None:
        self._shared = numbers
        self._fragments: list[int] = []
        self._numbers: list[int] = []

    def take(self, age_ms_max: int = 0) -> tuple[list[int], set[int]]:
        """The fragments that are new or have changed since the last call, and those that left;
        with an age, one of the former may have left since."""
        fragments, numbers = self._shared.read(age_ms_max)
        known, before = self._fragments, self._numbers
        self._fragments, self._numbers = fragments, numbers
        if fragments == known:  # nearly always
            return list(compress(fragments, map(ne, numbers, before))), set()
        then = dict(zip(known, before, strict=True))
        now = zip(fragments, numbers, strict=True)
        changed = [fragment for fragment, number in now if then.get(fragment) != number]
        return changed, {*known} - {*fragments}
