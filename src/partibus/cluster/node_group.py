"""The nodes of a cluster, as one of them sees the others.

Owns who belongs to the cluster for `cluster.peers`: the live nodes of the lease table, reached over
TLS, each under the name in its certificate, so that none can use the number of another. A node
that connects before this one has read its row is admitted, since its certificate is of the
cluster's authority and it only sends requests; it is checked again when the table has changed. The
lane table knows where a lane is served. Made by the node.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from partibus.cluster.lane_table import LaneTable
from partibus.cluster.tls_transport import TlsTransport, named_node


class NodeGroup:
    """The `PeerGroup` of a node."""

    kind = "node"

    def __init__(self, directory: Path, host: str, port: int) -> None:
        self.worker = 0
        """Set when the node has joined, as is the id of the cluster."""
        self.group_id = ""
        self.nodes: Callable[[], Mapping[int, tuple[str, int]]] = dict
        """The addresses of the live ones."""
        self.names: Callable[[], Mapping[int, str]] = dict
        """The name with which each of them has joined."""
        self.lanes = LaneTable()
        self._changed: Callable[[], None] | None = None
        self.transport = TlsTransport(directory, host, port, self._address)

    @property
    def others(self) -> list[int]:
        """The live nodes except this one."""
        return sorted(number for number in self.nodes() if number != self.worker)

    def owner_of(self, store: int) -> int | None:
        """The node that serves a lane."""
        return self.lanes.server_of(store)

    def is_member(self, number: int, certificate: dict[str, object] | None) -> bool:
        """Whether it has the certificate with which that number has joined."""
        name = named_node(certificate)
        joined = self.names().get(number)
        return name is not None and number != self.worker and joined in (None, "", name)

    def watch(self, changed: Callable[[], None]) -> None:
        """Call this when a node came or went."""
        self._changed = changed

    def changed(self) -> None:
        """A node came or went."""
        if self._changed is not None:
            self._changed()

    def _address(self, number: int) -> tuple[str, int] | None:
        return self.nodes().get(number)
