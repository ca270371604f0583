"""Invariants of a cluster: one writer of each lane, and everything served.

Owns the checks of databases and nodes together, between two steps. It must never change anything.
"""

from collections.abc import Sequence

from partibus.simulation.cluster.lane_tables import LaneContent
from partibus.simulation.cluster.node import Cluster, SimulatedNode
from partibus.simulation.world import Violation
from partibus.store.postgres.store import PostgresStore


def check_writers(cluster: Cluster, nodes: Sequence[SimulatedNode]) -> None:
    """What a node considers durable in a lane is there, and was written by this node's epoch."""
    for node in nodes:
        for number, broker in node.brokers.items():
            store = broker.store
            assert isinstance(store, PostgresStore)
            _check_writer(node, store, cluster.content(number))


def _check_writer(node: SimulatedNode, store: PostgresStore, lane: LaneContent) -> None:
    known = {
        "is durable": store.log_end[1] if store.log_end else 0,
        "is acknowledged": store.position,
    }
    for word, position in known.items():
        if position and lane.ends.get(position) != store.epoch:
            raise Violation(
                f"{lane.name}: {node.name} believes with epoch {store.epoch} that its log {word} "
                f"up to {position}, where the database has an entry of epoch "
                f"{lane.ends.get(position)}"
            )


def unserved(cluster: Cluster, nodes: Sequence[SimulatedNode]) -> str:
    """The lanes that are not served by exactly one node, under the epoch of the database."""
    found = []
    for number in range(cluster.plan.stores):
        serving = [n for n in nodes if n.is_serving and n.lanes.epoch_of(number) is not None]
        epochs = [node.lanes.epoch_of(number) for node in serving]
        if epochs != [cluster.content(number).epoch]:
            names = ", ".join(node.name for node in serving) or "nobody"
            found.append(f"lane {number} is served by {names}")
    found += [f"{node.name} has not joined" for node in nodes if not node.is_serving]
    return "; ".join(found)
