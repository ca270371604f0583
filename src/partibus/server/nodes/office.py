"""What operators may ask of a cluster over HTTP, and the answer of a server that is alone.

Owns the questions that `ops.admin_cluster` puts to the picture of a cluster, and must never import
either.
"""

from partibus.cluster.control_hub import Payload
from partibus.domain.errors import EntityNotFound


class ClusterOffice:
    """What an operator may ask of a cluster; here the answers of a server that is alone."""

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
