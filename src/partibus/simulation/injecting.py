"""The random choice of faults by number, and the faults of connections, common to all runs.

Owns when the next fault comes and which it is: each is drawn from a stream of its own number, so
that leaving one out does not change the others. The faults themselves are in `faults`, and for a
cluster in `cluster.faults`. Called by the run between two steps.
"""

from collections.abc import Callable
from random import Random

from partibus.simulation.net import Net
from partibus.simulation.plan import Plan
from partibus.simulation.world import World, stream


class Injecting:
    """Breaks connections; subclasses break more."""

    def __init__(self, world: World, net: Net, plan: Plan) -> None:
        self._world = world
        self._net = net
        self._plan = plan
        self._count = 0
        self.done: list[tuple[int, int, str]] = []
        """(number, step, what) of every fault."""
        self._kinds: dict[str, Callable[[Random], str | None]] = {
            "cut": self._cut,
            "half-open": self._half_open,
            "stall": self._stall,
            "twin": self._duplicate,
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

    def _cut(self, chance: Random) -> str | None:
        found = [c for c in self._net.connections if not c.is_broken]
        if not found:
            return None
        connection = chance.choice(found)
        connection.break_off(is_silent=False)
        return f"a connection to {connection.place} is cut"

    def _duplicate(self, chance: Random) -> str | None:
        found = [c for c in self._net.connections if c.greeting and not c.is_between_workers]
        if not found:
            return None
        connection = chance.choice(found)
        length = chance.randrange(len(connection.greeting) + 1)
        if not self._net.duplicate(connection, length):
            return None
        return f"{length} bytes of a connection to {connection.place} arrive once more"

    def _half_open(self, chance: Random) -> str | None:
        """Not between workers: they are on one machine."""
        found = [c for c in self._net.connections if not c.is_broken and not c.is_on_one_machine]
        if not found:
            return None
        connection = chance.choice(found)
        connection.break_off(is_silent=True)
        return f"a connection to {connection.place} goes silent"

    def _stall(self, chance: Random) -> str | None:
        found = [c for c in self._net.connections if not c.is_broken]
        if not found:
            return None
        connection = chance.choice(found)
        length_us = chance.randrange(1_000, 2_000_000)
        connection.stalled_until_us = self._world.now_us + length_us
        connection.note_break()
        return f"a connection to {connection.place} stalls for {length_us // 1000} ms"
