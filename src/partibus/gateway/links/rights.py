"""Which links of a connection have lost their right (SAS-10).

Owns the right that a link needs while it is open: Send on each entity that it sends to, Listen on
the one that it receives from. Called by the connection when a grant has ended; the connection then
drops the links.
"""

from collections.abc import Iterable, Iterator

from partibus.amqp.link import Link
from partibus.domain.errors import Unauthorized
from partibus.domain.rights import Rights
from partibus.gateway.grants import Grants
from partibus.gateway.links.attach import LinkOwner
from partibus.gateway.links.inbound import InboundLink
from partibus.gateway.links.outbound import OutboundLink


def unauthorized_links(
    links: Iterable[tuple[Link, LinkOwner]], grants: Grants, now_ms: int
) -> Iterator[tuple[Link, Unauthorized]]:
    """Links that no grant covers any more, each with the error for its client."""
    for link, owner in links:
        try:
            if isinstance(owner, InboundLink):
                for path in owner.paths:
                    grants.require(path, Rights.SEND, now_ms)
            elif isinstance(owner, OutboundLink):
                grants.require(owner.path, Rights.LISTEN, now_ms)
        except Unauthorized as error:
            yield link, error
