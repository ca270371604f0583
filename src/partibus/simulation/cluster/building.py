"""A cluster for a run: its databases, its nodes, their faults and checks.

Owns the wiring of the parts of this package for `run`, which loads it only for plans with nodes: it
needs the driver of PostgreSQL, whose errors the stores use.
"""

from functools import partial
from typing import Any

from partibus.control.catalog.catalog import Catalog
from partibus.simulation.cluster.checking import check_writers, unserved
from partibus.simulation.cluster.fault_injection import ClusterInjector
from partibus.simulation.cluster.node import Cluster, SimulatedNode
from partibus.simulation.cluster.seams import node_stand_ins, store_stand_ins
from partibus.simulation.net import Net
from partibus.simulation.plan import Plan
from partibus.simulation.threads import Threads
from partibus.simulation.world import World
from partibus.store.postgres import appending


class SimulatedCluster:
    """All of it."""

    def __init__(
        self, world: World, net: Net, threads: Threads, catalog: Catalog, plan: Plan
    ) -> None:
        threads.joins_take_time = True
        self._cluster = Cluster(world, net, threads, catalog, plan)
        self.nodes = [SimulatedNode(self._cluster, number) for number in range(plan.nodes)]
        self.injector = ClusterInjector(world, net, plan, self.nodes, self._cluster)
        self.check = partial(check_writers, self._cluster, self.nodes)
        """Raises when a node assumes something that its database does not confirm."""
        self.unserved = partial(unserved, self._cluster, self.nodes)
        """What is not served, as text."""

    @property
    def stand_ins(self) -> list[tuple[Any, str, Any]]:
        """Replacements for the driver in the product's modules."""
        cluster = self._cluster
        return [
            *store_stand_ins(cluster.servers, cluster.threads),
            *node_stand_ins(cluster.control),
            (appending, "PIPELINE_BYTES", cluster.plan.pipeline_bytes),
        ]
