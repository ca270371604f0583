"""The random choice of faults by number, and the faults of connections, common to all runs.

Owns when the next fault comes and which it is: each is drawn from a stream of its own number, so
that leaving one out does not change the others. The faults themselves are in `faults`, and for a
cluster in `cluster.faults`. Called by the run between two steps.
"""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import TypeVar

from partibus.simulation.net import Connection, Net
from partibus.simulation.plan import Plan
from partibus.simulation.world import World, stream

T = TypeVar("T")
Fault = Callable[[Random], str | None]
"""Carries a fault out and describes it; None when it was not possible."""


class Injecting:
    """Breaks connections; subclasses break more."""

    def __init__(self, world: World, net: Net, plan: Plan) -> None:
        self._world = world
        self._net = net
        self._plan = plan
        self._count = 0
        self.done: list[tuple[int, int, str]] = []
        """(number, step, what) of every fault."""
        self._kinds: dict[str, Fault] = {
            **hits(self._unbroken, {"cut": self._cut, "stall": self._stall}),
            **hits(self._between_machines, {"half-open": self._half_open}),
            **hits(self._greeted, {"twin": self._duplicate}),
        }

    def inject(self) -> int:
        """Inject the next fault; returns after how many steps another one should follow."""
        chance = stream(self._plan.seed, f"fault/{self._count}")
        gap = 1 + int(chance.expovariate(1 / self._plan.fault_gap))
        number, self._count = self._count, self._count + 1
        kind = chance.choice(self._plan.faults)
        if number not in self._plan.without_faults:
            what = self._kinds[kind](chance)
            if what is not None:
                self.done.append((number, self._world.steps, what))
                self._world.note("fault", what)
        return gap

    def heal(self) -> None:
        """End every fault; start everything that is down."""
        raise NotImplementedError

    # --- the wire -----------------------------------------------------------------------------

    def _unbroken(self, chance: Random) -> Connection | None:
        return pick(chance, [c for c in self._net.connections if not c.is_broken])

    def _cut(self, connection: Connection, chance: Random) -> str | None:
        connection.break_off(is_silent=False)
        return f"a connection to {connection.place} is cut"

    def _stall(self, connection: Connection, chance: Random) -> str | None:
        length_us = chance.randrange(1_000, 2_000_000)
        connection.stalled_until_us = self._world.now_us + length_us
        connection.note_break()
        return f"a connection to {connection.place} stalls for {length_us // 1000} ms"

    def _greeted(self, chance: Random) -> Connection | None:
        connections = self._net.connections
        return pick(chance, [c for c in connections if c.greeting and not c.is_between_workers])

    def _duplicate(self, connection: Connection, chance: Random) -> str | None:
        length = chance.randrange(len(connection.greeting) + 1)
        if not self._net.duplicate(connection, length):
            return None
        return f"{length} bytes of a connection to {connection.place} arrive once more"

    def _between_machines(self, chance: Random) -> Connection | None:
        found = [c for c in self._net.connections if not c.is_broken and not c.is_on_one_machine]
        return pick(chance, found)

    def _half_open(self, connection: Connection, chance: Random) -> str | None:
        """Not between workers: they are on one machine."""
        connection.break_off(is_silent=True)
        return f"a connection to {connection.place} goes silent"


def pick(chance: Random, found: Sequence[T]) -> T | None:
    """One of them, if there are any."""
    return chance.choice(found) if found else None


def hits(
    choose: Callable[[Random], T | None], faults: Mapping[str, Callable[[T, Random], str | None]]
) -> dict[str, Fault]:
    """Faults of something that is chosen first; with nothing to choose from there is no fault."""

    def of(fault: Callable[[T, Random], str | None]) -> Fault:
        def inject(chance: Random) -> str | None:
            target = choose(chance)
            return None if target is None else fault(target, chance)

        return inject

    return {name: of(fault) for name, fault in faults.items()}
