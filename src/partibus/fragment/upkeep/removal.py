"""Fragments whose entity was deleted, until nothing of them is left.

Owns the removal from one broker: the machine answers every command with an error, a record makes
the fragment's earlier records void, and then its bodies are released. While the store is down the
record waits; until it is durable the fragment stays in checkpoints, so that every later record
finds the state it refers to. Called by the broker only.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Final

from partibus.domain.errors import BusError, EntityNotFound
from partibus.fragment.commands import Command, DropLocks, Resume, Suspend, Tick, Undelivered
from partibus.fragment.effects import Effect, Effects
from partibus.fragment.machine import Machine
from partibus.fragment.outbox.commands import (
    Collect,
    Fence,
    Fetch,
    Forwarded,
    ForwardWaiting,
    Redirect,
    ReturnParcels,
)
from partibus.fragment.records import DROPPED
from partibus.fragment.replay import stored_bodies
from partibus.fragment.state import State
from partibus.store.interface import Store, StoreState
from partibus.store.record import Record

HOUSEKEEPING: Final = frozenset(
    (
        *(Tick, Suspend, Resume, Undelivered, DropLocks),
        *(Collect, Fetch, Forwarded, ReturnParcels, Redirect, ForwardWaiting, Fence),
    )
)
"""Commands of the broker itself, of a fault or a courier: they are not use (IDL-2)."""

RELEASED_AT_ONCE: Final = 10_000
"""Bodies that are released at once: a few milliseconds."""


@dataclass(eq=False)
class Refusal(Effect):
    """A command for a fragment that was removed."""

    command: Command
    error: BusError

    def carry_out(self) -> None:
        self.command.refuse(self.error)


class Removed(Effect):
    """Nothing more will be read for a fragment: earlier requests have been answered."""

    __slots__ = ("_machine", "_removals")

    def __init__(self, removals: "Removals", machine: Machine) -> None:
        self._removals = removals
        self._machine = machine

    def carry_out(self) -> None:
        self._removals.end(self._machine)


class Removals:
    """The fragments that one broker is removing."""

    def __init__(
        self,
        store: Store,
        let_out: Callable[[list[Effect]], None],
        call_soon: Callable[[Callable[[], None]], None],
        ended: Callable[[int], None],
    ) -> None:
        self.machines: dict[int, Machine] = {}
        self._ended = ended
        self._void: set[int] = set()
        """Fragments whose record is durable: a checkpoint with them would bring them back."""
        self._store = store
        self._let_out = let_out
        self._call_soon = call_soon
        self._unwritten: dict[int, Machine] = {}

    def begin(self, machine: Machine) -> None:
        """Refuse commands, deliver nothing more, and write the record."""
        machine.is_gone = True
        machine.state.suspended = True
        self.machines[machine.state.fragment_id] = machine
        self._unwritten[machine.state.fragment_id] = machine
        self.go_on()

    def go_on(self) -> None:
        """Write what could not be written yet."""
        if self._store.state is StoreState.DOWN:
            return
        unwritten, self._unwritten = self._unwritten, {}
        for fragment_id, machine in unwritten.items():
            record = Record(fragment_id, DROPPED, b"")
            self._store.append([record], partial(self._written, machine))

    def _written(self, machine: Machine, error: BusError | None) -> None:
        """All earlier appends have been reported: nothing of the fragment is pending any more."""
        if error is None:
            self._void.add(machine.state.fragment_id)
            self._let_out([Removed(self, machine)])
        else:
            self._unwritten[machine.state.fragment_id] = machine

    def forgo(self, machine: Machine, out: Effects) -> None:
        """Drop the effects of a durable change."""
        while out.changes:
            changes, out.changes = out.changes, []
            for change in changes:
                machine.abort(change, gone(machine), out)

    def end(self, machine: Machine) -> None:
        """Release the space."""
        fragment_id = machine.state.fragment_id
        del self.machines[fragment_id]
        self._void.discard(fragment_id)
        self._release(all_bodies(machine.state))
        self._ended(fragment_id)

    def unfinished(self) -> list[Machine]:
        """Those that the log still contains."""
        return [machine for number, machine in self.machines.items() if number not in self._void]

    def _release(self, bodies: Iterator[tuple[int, int]]) -> None:
        """Release some at a time: a queue of millions must not block the others."""
        some = list(islice(bodies, RELEASED_AT_ONCE))
        for position, length in some:
            self._store.release(position, length)
        if len(some) == RELEASED_AT_ONCE:
            self._call_soon(partial(self._release, bodies))


def all_bodies(state: State) -> Iterator[tuple[int, int]]:
    """(position, length) of every body that a fragment holds, locked or not."""
    yield from stored_bodies(state)
    if state.retention is not None:
        yield from state.retention.table.bodies()
    loose = list(state.departing.values())
    for subqueue in state.subqueues:
        loose += [*subqueue.locks.values(), *subqueue.leaving.values()]
    for held in loose:
        yield held.position, held.length


def gone(machine: Machine) -> EntityNotFound:
    """The error for commands to a fragment that was removed."""
    return EntityNotFound.named(machine.state.spec.path)
