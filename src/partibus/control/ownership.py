"""Which node of a cluster serves which lane: the protocol that a node uses, and its intervals.

Owns the `Ownership` protocol and the three intervals of a lease. A lease decides only who should
try: the epoch of the lane in its store is what keeps two writers apart, so nothing here is needed
for safety. Must never open a connection. Implemented in `control.postgres`;
called by the node.
"""

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

RENEW_MS: Final = 1000
"""How often a node renews its leases, and reads those of the others."""
SERVE_MS: Final = 2500
"""How long after a renewal an owner serves, by its own monotonic clock."""
LEASE_MS: Final = 3000
"""How long after a renewal others may take the lanes, by the clock of the lease table. It is longer
than `SERVE_MS`, so that an owner stops before its successor begins."""


class NodeAddress(NamedTuple):
    """Where the other nodes reach a node, the release it runs, and the name in its certificate."""

    host: str
    port: int
    version: str = ""
    name: str = ""
    """Empty for a node of a release that did not write it."""


class Ownership(Protocol):
    """The lanes of a cluster as one node sees them. All of it runs on the node's loop."""

    node: int
    """This node's number, unique in the cluster and never reused; 0 before `start`."""
    takeovers: int
    """Lanes that were acquired here from a node whose lease had lapsed, since the start."""
    renewals_failed: int
    """Renewals that the lease table did not accept, since the start."""
    on_change: Callable[[], None] | None
    """Called on the loop when owners, nodes or wanted lanes have changed; also when a lease
    lapsed."""

    def owner_of(self, lane: int) -> int | None:
        """The node with a live lease, as far as is known here; None: there is none."""
        ...

    def owned(self) -> frozenset[int]:
        """The lanes whose lease this node holds, by its own monotonic clock."""
        ...

    def serve_ms_left(self) -> int:
        """How long the leases of this node last, by its own clock; 0 or less: they have lapsed."""
        ...

    def nodes(self) -> dict[int, NodeAddress]:
        """The live nodes, including this one."""
        ...

    def wanted(self) -> frozenset[int]:
        """The lanes that this node should own. One that it owns and that is not among them must be
        handed over: flush, checkpoint, `release`."""
        ...

    async def acquire(self, lane: int) -> bool:
        """Take a lease that is free or has lapsed; False when another node holds it."""
        ...

    async def release(self, lane: int) -> None:
        """Release a lease, after flush and checkpoint; one that is not held is ignored."""
        ...

    async def report_unreachable(self, lanes: frozenset[int]) -> None:
        """The databases of exactly these lanes cannot be reached from here now: they are wanted of
        another node that can."""
        ...

    async def start(self) -> None:
        """Join the cluster under a new number and start to renew."""
        ...

    async def stop(self) -> None:
        """Release every lease and leave the cluster."""
        ...
