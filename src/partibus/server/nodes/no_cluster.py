"""What a server that is alone answers to operators who ask for its cluster over HTTP.

Owns these refusals. The protocol is `ops.administration.Cluster`; the view of a cluster
implements it too, and must never be imported here.
"""

from partibus.cluster.control_hub import Payload
from partibus.domain.errors import EntityNotFound


class NoCluster:
    """The answers of a server that is alone."""

    async def status(self) -> Payload:
        raise _alone()

    async def drain(self, node: int, dry_run: bool) -> Payload:
        raise _alone()

    async def resume(self, node: int) -> Payload:
        raise _alone()

    async def rebalance(self, dry_run: bool) -> Payload:
        raise _alone()

    async def evict(self, node: int, force: bool, dry_run: bool) -> Payload:
        raise _alone()


def _alone() -> EntityNotFound:
    return EntityNotFound(
        "This server is not part of a cluster; one is started with 'partibus serve --cluster URL'."
    )
