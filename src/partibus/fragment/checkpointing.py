"""Checkpoints of a broker's fragments: only what has changed, a little in each turn.

Owns the snapshot of every fragment as of the last checkpoint, which fragments have changed since,
and the taking of the next: all of it represents one position of the log, but is taken in slices. A
fragment that has not been taken yet is taken just before its next change. Large parts are only
referred to, and written by the store's thread (`paging`). Called by the broker only.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from partibus.domain.errors import BusError
from partibus.fragment.changes import Change
from partibus.fragment.machine import Machine
from partibus.fragment.paging import NewPages
from partibus.fragment.snapshot import dump
from partibus.fragment.upkeep.store_marks import StoreMarks
from partibus.store.interface import Done, Increment, Store

ROWS_PER_TURN: Final = 2000
"""Rows, chunks of rows and sessions that are visited in one turn of the loop: about 2 ms."""
FRAGMENT_ROWS: Final = 20
"""The cost of a fragment apart from its rows."""


@dataclass(eq=False)
class Section:
    """The snapshot of one fragment, and the pages it refers to."""

    data: bytes
    pages: list[int]


class Checkpoints:
    """The checkpoints of one store, one at a time."""

    __slots__ = (
        "_call_soon",
        "_changed",
        "_done",
        "_keeps_locks",
        "_kept",
        "_marks",
        "_pages",
        "_pending",
        "_position",
        "_sections",
        "_store",
        "_taken",
    )

    def __init__(self, store: Store, call_soon: Callable[[Callable[[], None]], None]) -> None:
        self._store = store
        self._call_soon = call_soon
        self._pages = NewPages(1)
        self._sections: dict[int, Section] = {}
        self._changed: dict[int, Machine] = {}
        """Fragments that have changed since their section was taken."""
        self._pending: dict[int, Machine] = {}
        """Fragments that the current checkpoint has not taken yet."""
        self._kept: list[int] = []
        """All fragments of the current checkpoint."""
        self._marks: dict[int, bytes] = {}
        self._position = 0
        self._keeps_locks = False
        self._done: Done | None = None
        self._taken = 0
        """How many checkpoints were begun: a slice of a superseded one does nothing."""

    def recovered(self, last_page: int) -> None:
        """The store has pages up to this number."""
        self._pages.next_number = last_page + 1

    def changed(self, machines: dict[int, Machine]) -> None:
        """These fragments have changed since their sections were taken."""
        self._changed.update(machines)

    def before(self, prepared: list[tuple[Machine, Change]]) -> None:
        """Changes are about to be made: first take the fragments that they concern."""
        if self._pending:
            for machine, _ in prepared:
                if self._pending.pop(machine.state.fragment_id, None) is not None:
                    self._take(machine)

    def begin(
        self, machines: list[Machine], marks: StoreMarks, done: Done, keeps_locks: bool = False
    ) -> None:
        """Take all these fragments as they are now; `done` is called when that is durable.

        A checkpoint that is not completely taken is superseded; its `done` is never called.
        """
        self._taken += 1
        self._changed = {**self._pending, **self._changed}
        self._position = self._store.position
        self._keeps_locks = keeps_locks
        self._done = done
        self._kept = [machine.state.fragment_id for machine in machines]
        self._marks = {}
        marks.add_to(self._marks)
        sections, changed = self._sections, self._changed
        self._sections = {number: sections[number] for number in self._kept if number in sections}
        self._pending = {
            machine.state.fragment_id: machine
            for machine in machines
            if machine.state.fragment_id in changed or (keeps_locks and machine.state.lock_count)
        }
        self._changed = {}
        self._pages.spent = 0

    def go_on(self) -> None:
        """Take some of the remaining fragments, then yield."""
        self._slice(self._taken)

    def finish(self) -> None:
        """Take all remaining fragments at once."""
        pending, self._pending = self._pending, {}
        for machine in pending.values():
            self._take(machine)
        self._hand_over()

    def _slice(self, taken: int) -> None:
        if taken != self._taken or self._done is None:
            return
        self._pages.spent = 0
        while self._pending and self._pages.spent < ROWS_PER_TURN:
            _, machine = self._pending.popitem()
            self._take(machine)
        if self._pending:
            self._call_soon(lambda: self._slice(taken))
        else:
            self._hand_over()

    def _take(self, machine: Machine) -> None:
        state, pages = machine.state, self._pages
        pages.begin()
        pages.spent += FRAGMENT_ROWS
        data = dump(state, self._keeps_locks, pages)
        self._sections[state.fragment_id] = Section(data, pages.mentioned)

    def _hand_over(self) -> None:
        """Everything is taken: the store's thread does the rest."""
        done, self._done = self._done, None
        assert done is not None
        sections = [(n, self._sections[n]) for n in self._kept if n in self._sections]
        states = {number: section.data for number, section in sections}
        states.update(self._marks)
        needed = [section.pages for _, section in sections if section.pages]
        new = dict(self._pages.unwritten)

        def written(error: BusError | None) -> None:
            if error is None:
                for number in new:
                    self._pages.unwritten.pop(number, None)
            done(error)

        self._store.checkpoint(states, written, Increment(self._position, new, needed))
