"""Which node of a cluster serves which lane: the questions a node asks, and the times they go by.

Owns the `Ownership` protocol and the three intervals of a lease. A lease decides only who should
try: what keeps two writers apart is the epoch of the lane in its store, so nothing here is needed
for safety. Never opens a connection. Implemented in `control.leases.memory` and in
`control.postgres`; called by the node.
"""

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

RENEW_MS: Final = 1000
"""How often a node renews its leases, and looks at those of the others."""
SERVE_MS: Final = 2500
"""For how long after a renewal an owner serves, by its own monotonic clock."""
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
    """The lanes of a cluster as one node sees them. All of it runs on the loop of the node."""

    node: int
    """This node's number, unique in the cluster and never reused; 0 before `start`."""
    takeovers: int
    """Lanes that were acquired here from a node whose lease had lapsed, since the start."""
    renewals_failed: int
    """Renewals that the lease table did not take, since the start."""
    on_change: Callable[[], None] | None
    """Called on the loop when owners, nodes or what is wanted changed; also when a lease lapsed."""

    def owner_of(self, lane: int) -> int | None:
        """The node that holds a live lease, as far as is known here; None: nobody does."""
        ...

    def owned(self) -> frozenset[int]:
        """The lanes whose lease this node holds, by its own monotonic clock."""
        ...

    def serve_ms_left(self) -> int:
        """How long the leases of this node last by its own clock; 0 and less: they have lapsed."""
        ...

    def nodes(self) -> dict[int, NodeAddress]:
        """The live nodes, this one included."""
        ...

    def wanted(self) -> frozenset[int]:
        """The lanes that this node should hold. One that it owns and that is not among them is to
        be handed over: flush, checkpoint, `release`."""
        ...

    async def acquire(self, lane: int) -> bool:
        """Take a lease that is free or has lapsed; False when another node holds it."""
        ...

    async def release(self, lane: int) -> None:
        """Give a lease back, after flush and checkpoint; one that is not held is passed over."""
        ...

    async def report_unreachable(self, lanes: frozenset[int]) -> None:
        """The databases of these lanes cannot be reached from here now, and no others: they are
        wanted of another node that can."""
        ...

    async def start(self) -> None:
        """Join the cluster under a new number and begin to renew."""
        ...

    async def stop(self) -> None:
        """Give back every lease and leave the cluster."""
        ...
