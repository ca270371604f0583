"""Faults for a cluster, drawn by lot: the same seed gives the same schedule.

Owns what can happen to nodes, databases and the ways between them, and that each fault ends. A
schedule is drawn before it runs and does not depend on how fast the machine is; while a fault
lasts the traffic goes on, and afterwards all lanes have to be served. Prints what it does, with the
seed, for whoever wants to see the same again. Used by the test of random faults.
"""

import random
import threading
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from adversity.waiting import wait_until
from support.json_admin import JsonAdmin

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.nodes.networked_cluster import NetworkedCluster
    from support.wall_clock import WallClock

LASTS_S: Final = (0.5, 2.0, 4.0, 8.0)
"""Below and above the time of a lease, and of what takes silence for a loss."""
RECOVERED_S: Final = 120.0


class Fault(NamedTuple):
    """One step of a schedule."""

    kind: str
    node: int
    database: int
    lasts_s: float


class Faults:
    """What can happen to one cluster."""

    def __init__(self, net: "NetworkedCluster", clocks: "list[WallClock]") -> None:
        self._net = net
        self._clocks = clocks
        self._pause = threading.Event()
        self._kinds: dict[str, Callable[[Fault], Any]] = {
            "a node is killed": self._killed,
            "a node stands still": self._frozen,
            "a node is cut off from a database": self._cut_from_database,
            "a node is cut off from the other nodes": self._cut_from_nodes,
            "a node is cut off from everything": self._cut_from_all,
            "a node is restarted": self._restarted,
            "a node's clock is set": self._clock_set,
            "a database is killed": self._database_killed,
            "a database stands still": self._database_frozen,
        }

    def schedule(self, seed: int, count: int) -> list[Fault]:
        """So many faults, by lot; no kind comes again before all have come."""
        lot = random.Random(seed)
        kinds: list[str] = []
        drawn = []
        for _ in range(count):
            if not kinds:
                kinds = lot.sample(sorted(self._kinds), len(self._kinds))
            node = lot.randrange(len(self._net.nodes))
            database = lot.randrange(len(self._net.databases))
            drawn.append(Fault(kinds.pop(), node, database, lot.choice(LASTS_S)))
        return drawn

    def run(self, fault: Fault) -> None:
        """Have it happen, wait, end it, and wait until every lane is served."""
        print(f"fault: {fault}", flush=True)
        with contextmanager(self._kinds[fault.kind])(fault):
            self._pause.wait(fault.lasts_s)
        wait_until(self._is_whole, f"all lanes are served after {fault}", seconds=RECOVERED_S)

    def _is_whole(self) -> bool:
        return all(
            store["state"] == "up" for node in self._net.nodes for store in JsonAdmin(node).stores()
        )

    # --- what happens -----------------------------------------------------------------------

    def _killed(self, fault: Fault) -> "Iterator[None]":
        node = self._net.nodes[fault.node]
        node.sigkill()
        yield
        node.start()

    def _restarted(self, fault: Fault) -> "Iterator[None]":
        node = self._net.nodes[fault.node]
        assert node.stop() == 0
        yield
        node.start()

    def _frozen(self, fault: Fault) -> "Iterator[None]":
        node = self._net.nodes[fault.node]
        node.pause()
        yield
        node.resume()

    def _clock_set(self, fault: Fault) -> "Iterator[None]":
        """For as long as it lasts it is ahead by that; clients would take locks for lapsed if it
        were further off."""
        clock = self._clocks[fault.node]
        clock.set_ahead(max(1, round(fault.lasts_s / 4)))
        yield
        clock.set_ahead(0)

    def _cut_from_database(self, fault: Fault) -> "Iterator[None]":
        ends = self._net.machines[fault.node], self._net.database_machines[fault.database]
        self._net.network.cut(*ends)
        yield
        self._net.network.join(*ends)

    def _cut_from_nodes(self, fault: Fault) -> "Iterator[None]":
        machine = self._net.machines[fault.node]
        others = [end for end in self._net.machines if end is not machine]
        self._net.network.cut(machine, *others)
        yield
        self._net.network.join(machine, *others)

    def _cut_from_all(self, fault: Fault) -> "Iterator[None]":
        machine = self._net.machines[fault.node]
        network = self._net.network
        others = [network.test, *(end for end in network.machines if end is not machine)]
        network.cut(machine, *others)
        yield
        network.join(machine, *others)

    def _database_killed(self, fault: Fault) -> "Iterator[None]":
        database = self._net.databases[fault.database]
        database.kill()
        yield
        database.start()

    def _database_frozen(self, fault: Fault) -> "Iterator[None]":
        database = self._net.databases[fault.database]
        database.pause()
        yield
        database.resume()
