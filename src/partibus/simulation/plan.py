"""What a run is made of, drawn from its seed: the swarm.

Owns the random choice. Each run has some of the features and some of the faults, at its own rates,
since runs in which everything happens all the time never reach special states. A plan can be
reduced by leaving out clients and faults by their numbers, which does not change the others.
"""

from dataclasses import dataclass, field

from partibus.simulation.world import stream

CLIENTS = (
    "sender",
    "publisher",
    "forwarded",
    "batcher",
    "session-sender",
    "repeater",
    "scheduler",
    "mover",
    "deleter",
    "stager",
    "claimer",
    "receiver",
    "token-settler",
    "deferrer",
    "session-receiver",
    "session-rival",
    "cursor-reader",
    "mortal-sender",
)
NEEDS = {
    "session-rival": "session-sender",
    "cursor-reader": "sender",
    "session-sender": "session-receiver",
    "deferrer": "sender",
    "token-settler": "sender",
    "receiver": "sender",
}
FAULTS = (
    "kill",
    "power loss",
    "death at a disk call",
    "failing start",
    "stop",
    "pause",
    "sync error",
    "write error",
    "read error",
    "full disk",
    "slow disk",
    "uncached reads",
    "cut",
    "half-open",
    "stall",
    "clock jump",
    "clock drift",
    "bit flip",
    "flipped read",
    "twin",
    "long pause",
)
CLUSTER_FAULTS = (
    "node killed",
    "node lost",
    "node pause",
    "pause past the lease",
    "node stop",
    "drain",
    "eviction",
    "cut off from a database",
    "nodes cut off",
    "lost answer",
    "late database",
    "full database",
    "outage",
    "failover",
    "cut",
    "half-open",
    "stall",
    "twin",
    "node clock",
)
"""What goes wrong in a cluster."""
BUSY_CLIENTS = ("sender", "batcher", "repeater", "receiver")
"""More of these: a lane that moves should have pending work."""
MOVING_FAULTS = ("pause past the lease", "cut off from a database", "node stop", "node killed")
"""After these a lane is served by another node: most runs have one of them, some twice as often."""


@dataclass(slots=True)
class Plan:
    """One run."""

    seed: int
    steps: int
    nodes: int = 0
    """The number of nodes of a cluster; 0: one server with workers."""
    databases: int = 1
    workers: int = 1
    stores: int = 2
    fragments: int = 2
    segment_bytes: int = 64 << 10
    memory_bytes: int = 512 << 20
    recent_bytes: int = 32 << 20
    """How much of its newest entries a lane keeps in memory."""
    pipeline_bytes: int = 256 << 10
    """What is sent to a database before earlier statements are answered."""
    commit_us: int = 300
    """How long a database takes for a commit."""
    lock_ms: int = 5_000
    clients: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    fault_gap: int = 150
    """Steps from one fault to the next, on average."""
    checkpoint_gap: int = 400
    without_clients: set[int] = field(default_factory=set)
    without_faults: set[int] = field(default_factory=set)

    def describe(self) -> str:
        """As one line."""
        processes = f"{self.workers} workers, {self.stores} stores"
        if self.nodes:
            processes = f"{self.nodes} nodes, {self.stores} lanes in {self.databases} databases"
        return (
            f"{processes}, {self.fragments} fragments, "
            f"{len(self.clients)} clients ({', '.join(sorted(set(self.clients)))}); "
            f"faults: {', '.join(self.faults) or 'none'} every {self.fault_gap} steps"
        )


def draw_cluster(seed: int, steps: int, nodes: int = 0) -> Plan:
    """The plan of a seed for a cluster; without a number of nodes that is drawn too."""
    plan = draw(seed, steps)
    chance = stream(seed, "plan/cluster")
    plan.workers = 1
    drawn = chance.choice((2, 3, 3, 4))
    plan.nodes = nodes or drawn
    plan.databases = chance.choice((1, 1, 2))
    plan.stores = max(plan.databases, chance.choice((1, 2, 4, 6)))
    plan.clients += chance.choices(BUSY_CLIENTS, k=chance.randrange(0, 5))
    plan.recent_bytes = chance.choice((8 << 10, 32 << 20))
    pace = stream(seed, "plan/pipeline")
    plan.pipeline_bytes = pace.choice((1, 4 << 10, 256 << 10))
    plan.commit_us = pace.choice((300, 2_000, 10_000))
    plan.faults = chance.sample(CLUSTER_FAULTS, chance.randrange(0, 7))
    plan.faults += chance.sample(MOVING_FAULTS, chance.choice((0, 1, 2)))
    plan.fault_gap = chance.choice((120, 400, 1200))
    return plan


def draw_for(seed: int, steps: int, nodes: int | None) -> Plan:
    """The plan of a seed: for one server, for a cluster of this many nodes, or, for 0, for a
    cluster whose size the seed decides."""
    return draw(seed, steps) if nodes is None else draw_cluster(seed, steps, nodes)


def draw(seed: int, steps: int) -> Plan:
    """The plan of a seed, for one server."""
    chance = stream(seed, "plan")
    plan = Plan(seed, steps)
    plan.workers = chance.choice((1, 1, 1, 2, 3))
    plan.stores = max(plan.workers, chance.choice((1, 2, 2, 3)))
    plan.fragments = chance.choice((1, 2, 4))
    plan.segment_bytes = chance.choice((4 << 10, 16 << 10, 64 << 10, 256 << 10))
    plan.memory_bytes = stream(seed, "plan/memory").choice((32 << 10, 256 << 10, 512 << 20))
    plan.lock_ms = chance.choice((1_000, 1_000, 5_000, 30_000))
    kinds = chance.sample(CLIENTS, chance.choice((1, 2, 3, 5)))
    focus = kinds[0]
    for kind in kinds:  # it grows: what is needed may need something itself
        if kind in NEEDS and NEEDS[kind] not in kinds:
            kinds.append(NEEDS[kind])
    kinds.append("receiver")
    plan.clients = kinds + [chance.choice(kinds) for _ in range(chance.randrange(0, 6))]
    if chance.random() < 0.6:  # rivals: some bugs need two clients of a kind
        plan.clients += [focus] * chance.randrange(1, 4)
    plan.faults = chance.sample(FAULTS, chance.randrange(0, 7))
    plan.fault_gap = chance.choice((40, 100, 250))
    plan.checkpoint_gap = chance.choice((100, 400, 1500))
    return plan
