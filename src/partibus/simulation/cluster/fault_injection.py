"""Faults of a cluster: nodes, their databases, and the connections between any two.

Owns the choice of what a fault hits and how severely, and the end of all faults. Nodes that ended
come back after a while, under a new number. Called by the run between two steps.
"""

from random import Random

from partibus.control.ownership import LEASE_MS
from partibus.simulation.cluster.lane import LaneServer
from partibus.simulation.cluster.node import Cluster, SimulatedNode
from partibus.simulation.injecting import Injecting, hits, pick
from partibus.simulation.net import Net
from partibus.simulation.plan import Plan
from partibus.simulation.process import STARTS
from partibus.simulation.world import World, stream

LEASE_US = LEASE_MS * 1000
BUSY_US = 150
BUSY_TRIES = 300
"""How often, and how many times, to check whether a node waits for a database."""


class ClusterInjector(Injecting):
    """Breaks nodes and databases."""

    def __init__(
        self, world: World, net: Net, plan: Plan, nodes: list[SimulatedNode], cluster: Cluster
    ) -> None:
        super().__init__(world, net, plan)
        self._nodes = nodes
        self._cluster = cluster
        self._draining: dict[int, None] = {}
        self._is_over = False
        self._kinds |= hits(
            self._up,
            {
                "node killed": self._kill,
                "node lost": self._lose,
                "node pause": self._pause,
                "node stop": self._stop,
                "drain": self._drain,
                "eviction": self._evict,
                "cut off from a database": self._cut_off,
            },
        )
        self._kinds |= hits(
            self._database,
            {
                "lost answer": self._lose_answers,
                "late database": self._stall_database,
                "full database": self._fill,
                "outage": self._outage,
                "failover": self._fail_over,
            },
        )
        self._kinds |= {
            "pause past the lease": self._pause_long,
            "nodes cut off": self._part,
            "node clock": self._set_clock,
        }
        for node in nodes:
            node.on_gone = self._gone

    def heal(self) -> None:
        """End every fault; start everything that is down."""
        self._is_over = True
        self._net.heal()
        for database in self._cluster.databases:
            database.heal()
        for number in self._draining:
            self._cluster.control.drain(number, False)
        for node in self._nodes:
            if node.is_up:
                self._go_on(node)
            else:
                self._restart(node)

    # --- nodes --------------------------------------------------------------------------------

    def _up(self, chance: Random) -> SimulatedNode | None:
        return pick(chance, [node for node in self._nodes if node.is_up])

    def _gone(self, node: SimulatedNode) -> None:
        """One that could not join, or was told to leave."""
        self._come_back(node, stream(self._plan.seed, f"gone/{self._world.steps}"))

    def _come_back(self, node: SimulatedNode, chance: Random) -> None:
        delay_us = int(chance.choice((10_000, 1_000_000, 8_000_000)) * chance.random())
        self._world.after(delay_us, self._restart, node)

    def _restart(self, node: SimulatedNode) -> None:
        if not node.is_up:
            node.start()
            self._world.note(node.name, STARTS)

    def _kill(self, node: SimulatedNode, chance: Random) -> str | None:
        node.die(is_silent=False)
        self._come_back(node, chance)
        return f"{node.name} is killed"

    def _lose(self, node: SimulatedNode, chance: Random) -> str | None:
        node.die(is_silent=True)
        self._come_back(node, chance)
        return f"{node.name} loses power"

    def _stop(self, node: SimulatedNode, chance: Random) -> str | None:
        node.stop()
        return f"{node.name} is asked to stop"

    def _pause(self, node: SimulatedNode, chance: Random) -> str | None:
        return self._hold(node, chance.randrange(10_000, LEASE_US), chance.random() < 0.5)

    def _pause_long(self, chance: Random) -> str | None:
        """For longer than others wait for its lanes, with whatever it has pending."""
        now_us = self._world.now_us
        up = [node for node in self._nodes if node.is_up]
        serving = [node for node in up if node.brokers and not node.is_stopping]
        if not serving or any(node.loop.paused_until_us > now_us for node in up):
            return None  # one node must be left to take over
        node = chance.choice(serving)
        length_us = LEASE_US + chance.randrange(chance.choice((LEASE_US, LEASE_US, 20_000_000)))
        is_whole_machine = chance.random() < 0.5
        if chance.random() < 0.3:
            return self._hold(node, length_us, is_whole_machine)
        self._hold_busy(node, length_us, is_whole_machine, BUSY_TRIES)
        return f"{node.name} will stand still for {length_us // 1000} ms when it appends"

    def _hold_busy(
        self, node: SimulatedNode, length_us: int, is_whole_machine: bool, tries: int
    ) -> None:
        """Pause a node as soon as it waits for a database."""
        if self._is_over or not node.is_up:
            return
        if tries and all(broker.is_at_rest for broker in node.brokers.values()):
            args = (node, length_us, is_whole_machine, tries - 1)
            self._world.after(BUSY_US, self._hold_busy, *args)
            return
        self._world.note("fault", self._hold(node, length_us, is_whole_machine))

    def _hold(self, node: SimulatedNode, length_us: int, is_whole_machine: bool) -> str:
        """Pause a process, or its machine with the data it has sent still in memory."""
        until_us = self._world.now_us + length_us
        if is_whole_machine:
            for database in self._cluster.databases:
                database.hold(node.name, until_us)
        node.loop.paused_until_us = until_us
        self._cluster.threads.freeze(node.name)
        self._net.peers_break(until_us)
        self._world.at(until_us - 1, self._end_pause, node, until_us)
        what = "the machine of " if is_whole_machine else ""
        return f"{what}{node.name} stands still for {length_us // 1000} ms"

    def _end_pause(self, node: SimulatedNode, until_us: int) -> None:
        """A loop checks its sockets first, and its timers after that: what clients have sent
        meanwhile is handled before it notices that the lease has lapsed."""
        if node.is_up and node.loop.paused_until_us == until_us:
            self._go_on(node)

    def _go_on(self, node: SimulatedNode) -> None:
        self._net.go_on(node.loop)
        self._cluster.threads.thaw(node.name)

    def _drain(self, node: SimulatedNode, chance: Random) -> str | None:
        if not node.cluster_number:
            return None
        number = node.cluster_number
        self._draining[number] = None
        self._cluster.control.drain(number, True)
        length_us = chance.randrange(100_000, 8_000_000)
        self._world.after(length_us, self._cluster.control.drain, number, False)
        return f"{node.name} is drained for {length_us // 1000} ms"

    def _evict(self, node: SimulatedNode, chance: Random) -> str | None:
        if not node.cluster_number:
            return None
        self._cluster.control.remove(node.cluster_number)
        return f"{node.name} is evicted"

    def _set_clock(self, chance: Random) -> str | None:
        node = chance.choice(self._nodes)
        if chance.random() < 0.5:
            delta_ms = chance.randrange(-60_000, 60_000)
            node.clock.jump(delta_ms)
            return f"{node.name}: the clock is set by {delta_ms} ms"
        rate = 1 + chance.choice((-0.2, -0.01, 0.01, 0.2)) * chance.random()
        node.clock.drift(rate)
        return f"{node.name}: the clock counts {rate:.3f} seconds in each"

    # --- databases ----------------------------------------------------------------------------

    def _database(self, chance: Random) -> LaneServer:
        return chance.choice(self._cluster.databases)

    def _cut_off(self, node: SimulatedNode, chance: Random) -> str | None:
        database = self._database(chance)
        length_us = chance.randrange(100_000, 8_000_000)
        database.cut(node.name, length_us)
        return f"{node.name} does not reach {database.name} for {length_us // 1000} ms"

    def _part(self, chance: Random) -> str | None:
        if len(self._nodes) < 2:
            return None
        one, other = chance.sample(self._nodes, 2)
        length_us = chance.randrange(100_000, 12_000_000)
        self._net.cut(one.name, other.name, length_us)
        return f"{one.name} and {other.name} do not reach each other for {length_us // 1000} ms"

    def _lose_answers(self, database: LaneServer, chance: Random) -> str | None:
        database.lost_answers = chance.choice((1, 1, 3))
        return f"{database.name}: {database.lost_answers} answers will be lost"

    def _stall_database(self, database: LaneServer, chance: Random) -> str | None:
        length_us = chance.randrange(50_000, 9_000_000)
        if chance.random() < 0.5:
            database.commit_us = chance.choice((10_000, 100_000, 600_000))
            self._world.after(length_us, self._hasten, database)
            return f"{database.name} takes {database.commit_us // 1000} ms for a commit"
        database.stalled_until_us = self._world.now_us + length_us
        return f"{database.name} carries nothing out for {length_us // 1000} ms"

    def _hasten(self, database: LaneServer) -> None:
        database.commit_us = self._plan.commit_us

    def _fill(self, database: LaneServer, chance: Random) -> str | None:
        database.is_full = True
        self._world.after(chance.randrange(50_000, 6_000_000), self._empty, database)
        return f"{database.name} is full"

    def _empty(self, database: LaneServer) -> None:
        database.is_full = False

    def _outage(self, database: LaneServer, chance: Random) -> str | None:
        length_us = chance.randrange(1_000, 6_000_000)
        database.go_down(length_us)
        return f"{database.name} is down for {length_us // 1000} ms"

    def _fail_over(self, database: LaneServer, chance: Random) -> str | None:
        """Another machine continues with everything that was executed, and its own clock."""
        length_us = chance.randrange(1_000_000, 20_000_000)
        database.go_down(length_us)
        database.clock_offset_ms = chance.randrange(-5_000, 5_000)
        return (
            f"{database.name} fails over within {length_us // 1000} ms, to a clock that differs "
            f"by {database.clock_offset_ms} ms"
        )
