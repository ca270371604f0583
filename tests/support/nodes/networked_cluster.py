"""Nodes and databases, each on a machine of its own, on a network that a test can cut.

Owns the order in which they come and go. The clients of the test are one more end of the network.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from support.nodes.chains import check_chains
from support.nodes.cluster import ClusterNode, TestCluster, new_cluster
from support.nodes.network import Machine, Network
from support.postgres import PostgresServer


class NetworkedCluster:
    """A cluster whose parts can be cut off from each other."""

    def __init__(
        self,
        network: Network,
        cluster: TestCluster,
        machines: Sequence[Machine],
        databases: Sequence[PostgresServer],
        database_machines: Sequence[Machine],
    ) -> None:
        self.network = network
        self.cluster = cluster
        self.nodes = cluster.nodes
        self.machines = machines
        self.databases = databases
        self.database_machines = database_machines

    def machine_of(self, node: ClusterNode) -> Machine:
        """Where it runs."""
        return self.machines[self.nodes.index(node)]

    def check_writers(self) -> None:
        """There were never two writers of a lane."""
        for dsn in self.cluster.stores:
            check_chains(dsn)


@contextmanager
def networked_cluster(
    directory: Path,
    nodes: int,
    databases: int = 1,
    *,
    network: Network | None = None,
    first: str | None = None,
    environments: Sequence[dict[str, str]] = (),
) -> Iterator[NetworkedCluster]:
    """The first of the databases is the cluster's; messages are in all, and in the one whose
    address is given, before the others. Nodes may have environments of their own."""
    with ExitStack() as stack:
        network = stack.enter_context(Network()) if network is None else network
        machines = [network.machine() for _ in range(nodes)]
        places = [network.machine() for _ in range(databases)]
        servers = []
        for place in places:
            server = PostgresServer(machine=place)
            stack.callback(server.remove)
            server.start()
            servers.append(server)
        stores = [*([] if first is None else [first]), *(server.dsn for server in servers)]
        cluster = new_cluster(directory, servers[0], nodes, stores, machines)
        for node, environment in zip(cluster.nodes, environments, strict=False):
            node.environment = environment
        made = NetworkedCluster(network, cluster, machines, servers, places)
        stack.callback(_join_all, network)
        stack.enter_context(cluster)
        yield made


def _join_all(network: Network) -> None:
    ends = (network.test, *network.machines)
    for index, end in enumerate(ends):
        network.join(end, *ends[index + 1 :])
